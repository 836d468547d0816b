/** A real gateway process in a temporary home, and a small upstream in place of the service. */
import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { exists } from "../helper/exists.ts";

const main = fileURLToPath(import.meta.resolve("../../main.ts"));

/** Options of tests: the process-wide fetch pool keeps connections open after a test. */
export const options = { sanitizeResources: false, sanitizeOps: false };

/** A request as received by the upstream. */
export interface ReceivedRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
}

/** The upstream: some routes of the service's table, whose responses show the forwarded request. */
export class FakeService {
  readonly seen: ReceivedRequest[] = [];
  /** resolves when a stream through the gateway ends because the client disconnected */
  readonly aborted = Promise.withResolvers<void>();
  #server?: Deno.HttpServer;

  constructor(readonly path: string) {}

  start(): void {
    this.#server = Deno.serve({ path: this.path, onListen() {} }, this.#app().fetch);
  }

  async stop(): Promise<void> {
    await this.#server?.shutdown();
    await Deno.remove(this.path).catch(() => {});
  }

  #app(): Hono {
    const app = new Hono();
    app.use((c, next) => {
      this.seen.push({ method: c.req.method, url: c.req.url, headers: c.req.header() });
      return next();
    });
    app.get("/version", (c) => c.json({ version: "0.0.1" }));
    app.get("/vms/list", (c) => c.json({ vms: [] }));
    app.get("/vms/:id/info", (c) => c.json({ error: "no such VM", code: "vm.not_found" }, 404));
    app.delete("/vms/:id/delete", (c) => c.body(null, 204));
    app.post("/vms/:id/files/content", async (c) => {
      let size = 0;
      for await (const chunk of c.req.raw.body ?? []) {
        size += chunk.length;
        if (c.req.param("id") === "full") return c.json({ error: "no space", code: "disk.full" }, 500);
      }
      return c.json({ path: c.req.query("path"), size });
    });
    app.get("/vms/:id/files/content", (c) => c.body(new Uint8Array(Number(c.req.query("path"))).fill(7)));
    app.post("/vms/create", async (c) => c.json({ size: (await c.req.arrayBuffer()).byteLength }));
    app.post("/run", (c) =>
      streamSSE(c, async (stream) => {
        stream.onAbort(() => this.aborted.resolve());
        await stream.writeSSE({ event: "booted", data: "{}" });
        while (!stream.aborted) await stream.sleep(20);
      }));
    app.post("/vms/:id/exec", async (c) => {
      const { signal } = c.req.raw;
      const gone = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await gone;
      this.aborted.resolve();
      return c.text("");
    });
    app.get(
      "/terminal/missing",
      (c) => c.json({ error: "no VM is called missing", code: "vm.not_found" }, 404),
    );
    app.get("/terminal/blocked", (c) => {
      const { socket, response } = Deno.upgradeWebSocket(c.req.raw);
      socket.onopen = () => socket.close(1011, "blocked by policy");
      return response;
    });
    app.get("/terminal/:id", (c) => {
      const { socket, response } = Deno.upgradeWebSocket(c.req.raw);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => socket.send("attached");
      socket.onmessage = ({ data }) => data === "end" ? socket.close(4001, "ended") : socket.send(data);
      return response;
    });
    return app;
  }
}

/** A running gateway. */
export class Gateway implements AsyncDisposable {
  private constructor(
    readonly home: string,
    readonly service: FakeService,
    readonly child: Deno.ChildProcess,
    readonly port: number,
    readonly token: string,
  ) {}

  static async start({ service = true } = {}): Promise<Gateway> {
    const home = await Deno.makeTempDir({ prefix: "sbx-gw-" });
    const run = join(home, "run");
    await Deno.mkdir(run);
    const fake = new FakeService(join(run, "service.sock"));
    if (service) fake.start();
    const child = gatewayProcess(home, ["--port", "0"]).spawn();
    while (!(await exists(join(run, "gateway.pid")))) await sleep(20);
    const port = Number(await Deno.readTextFile(join(run, "gateway.port")));
    return new Gateway(home, fake, child, port, await Deno.readTextFile(join(run, "gateway.token")));
  }

  get run(): string {
    return join(this.home, "run");
  }

  /** Sends a request with the token. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (!headers.has("authorization")) headers.set("authorization", `Bearer ${this.token}`);
    return fetch(`http://127.0.0.1:${this.port}${path}`, { ...init, headers });
  }

  /**
   * Sends `text` unchanged.
   * @returns the bytes received until a response is complete or the connection ends
   */
  async raw(text: string): Promise<string> {
    using connection = await Deno.connect({ port: this.port });
    await connection.write(new TextEncoder().encode(text));
    let answer = "";
    const buffer = new Uint8Array(64 * 1024);
    for (let read = await connection.read(buffer); read !== null; read = await connection.read(buffer)) {
      answer += new TextDecoder().decode(buffer.subarray(0, read));
      const [head, body] = answer.split("\r\n\r\n", 2);
      const length = /content-length: (\d+)/i.exec(head)?.[1];
      if (body !== undefined && (length === undefined || body.length >= Number(length))) break;
    }
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.child.kill("SIGTERM");
    } catch { /* already exited */ }
    await this.child.status;
    await this.service.stop();
    await Deno.remove(this.home, { recursive: true });
  }
}

/** Command of a gateway process. */
export function gatewayProcess(home: string, args: string[]): Deno.Command {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--no-prompt", main, "gateway", ...args],
    env: { SBX_HOME: home, SBX_RUN_DIR: join(home, "run") },
    stdout: "null",
    stderr: "piped",
  });
}

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
