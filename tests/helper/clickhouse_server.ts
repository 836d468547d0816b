/**
 * The HTTP interface of ClickHouse in front of its real engine, chdb:
 * `clickhouse_server.ts PORT DIR [USER PASSWORD]`. What a client sends as `param_*` goes to the engine as it
 * came, which reads it by the declared type, as a server does. One statement at a time. A process of its own:
 * chdb has one folder a process, and tests kill it.
 */
import { createRequire } from "node:module";
import { enginesFolder, loadEngine } from "../../lib/fleet/engine.ts";
import { fromRoot } from "./repo.ts";

export class ClickHouseProcess implements AsyncDisposable {
  #child?: Deno.ChildProcess;

  private constructor(readonly dir: string, readonly port: number, readonly login: string[]) {}

  static async start(login: string[] = [], dir?: string): Promise<ClickHouseProcess> {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    listener.close();
    const server = new ClickHouseProcess(dir ?? await Deno.makeTempDir(), port, login);
    await server.begin();
    return server;
  }

  get url(): string {
    return `clickhouse://127.0.0.1:${this.port}`;
  }

  /** The `authorization` header of the login. */
  readonly authorize = (): Promise<string> =>
    Promise.resolve(`Basic ${btoa(this.login.length > 0 ? this.login.join(":") : "default:")}`);

  async begin(): Promise<void> {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--no-check",
        "--quiet",
        fromRoot("tests/helper/clickhouse_server.ts"),
        String(this.port),
        this.dir,
        ...this.login,
      ],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = this.#child.stdout.getReader();
    const { done } = await reader.read();
    reader.releaseLock();
    if (done) throw new Error("the ClickHouse of the tests does not start");
  }

  async kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#child?.status;
    await this.#child?.stdout.cancel();
    this.#child = undefined;
  }

  async [Symbol.asyncDispose]() {
    await this.kill();
    await Deno.remove(this.dir, { recursive: true });
  }
}

if (import.meta.main) {
  const [port, dir, user, password] = Deno.args;
  const { Session } = loadEngine("chdb");
  const session = new Session(`${dir}/data`);
  const require = createRequire(`${enginesFolder()}/node_modules/chdb/index.js`);
  const native = require("./dist/loader.js").loadNative();
  let turn: Promise<unknown> = Promise.resolve();
  const query = (sql: string, parameters: Record<string, string>): Promise<string> => {
    const run = async () => {
      const { bytes } = await native.QueryAsyncConnection(session.connection, sql, "JSONEachRow", parameters);
      return new TextDecoder().decode(bytes);
    };
    const answer = turn.then(run, run);
    turn = answer;
    return answer;
  };
  Deno.serve({
    hostname: "127.0.0.1",
    port: Number(port),
    onListen: () => console.log("ready"),
  }, async (request) => {
    const wanted = user === undefined ? null : `Basic ${btoa(`${user}:${password}`)}`;
    if (wanted && request.headers.get("authorization") !== wanted) {
      return new Response("Code: 516. DB::Exception: Authentication failed", { status: 403 });
    }
    const search = new URL(request.url).searchParams;
    const parameters: Record<string, string> = {};
    let sql = search.get("query") ?? "";
    if (request.headers.get("content-type")?.startsWith("multipart/form-data")) {
      for (const [name, value] of await request.formData()) {
        if (name === "query") sql = String(value);
        else if (name.startsWith("param_")) parameters[name.slice(6)] = String(value);
      }
    } else sql = [sql, await request.text()].filter((part) => part !== "").join("\n");
    try {
      const database = search.get("database") ?? "default";
      if (database !== "default") await query(`USE ${database}`, {});
      return new Response(await query(sql, parameters));
    } catch (error) {
      return new Response((error as Error).message, { status: 500 });
    }
  });
}
