/** Debian's MariaDB on loopback, in a folder of its own, as a user who is not root. */
import { join } from "node:path";
import { runChild } from "./child.ts";
import { otherUser } from "./postgres.ts";

export class MariaDbServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(readonly dir: string, readonly port: number, child: Deno.ChildProcess) {
    this.#child = child;
  }

  /**
   * @param options.tls certificate and key; absent: without TLS
   * @param options.settings lines of `[mariadbd]`
   */
  static async start(
    options: { tls?: { cert: string; key: string }; settings?: string[] } = {},
  ): Promise<MariaDbServer> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-my-" });
    const data = join(dir, "data");
    const as = await otherUser();
    await Deno.mkdir(data);
    const files = options.tls ? { "server.crt": options.tls.cert, "server.key": options.tls.key } : {};
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(join(dir, name), text, { mode: 0o600 });
    }
    if (as) {
      for (const path of [dir, data, ...Object.keys(files).map((name) => join(dir, name))]) {
        await Deno.chown(path, as.uid, as.gid);
      }
    }
    const made = await runChild("mariadb-install-db", {
      args: [
        "--no-defaults",
        `--datadir=${data}`,
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
      ],
      // The folder of the tests may be closed to another user.
      cwd: dir,
      ...as,
    });
    if (made.code !== 0) throw new Error(new TextDecoder().decode(made.stderr));
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    listener.close();
    const child = new Deno.Command("mariadbd", {
      args: [
        "--no-defaults",
        `--datadir=${data}`,
        "--bind-address=127.0.0.1",
        `--port=${port}`,
        `--socket=${join(dir, "socket")}`,
        "--skip-name-resolve",
        "--plugin-load-add=auth_ed25519",
        "--innodb-flush-log-at-trx-commit=0",
        ...(options.tls
          ? [`--ssl-cert=${join(dir, "server.crt")}`, `--ssl-key=${join(dir, "server.key")}`]
          : []),
        ...(options.settings ?? []),
      ],
      cwd: dir,
      stdout: "null",
      stderr: "piped",
      ...as,
    }).spawn();
    const server = new MariaDbServer(dir, port, child);
    await server.#ready();
    return server;
  }

  /** Runs SQL as the superuser, not through sbx. */
  async sql(text: string): Promise<string> {
    const { code, stdout, stderr } = await runChild("mariadb", {
      args: ["--no-defaults", `--socket=${join(this.dir, "socket")}`, "-u", "root", "-NBe", text],
    });
    if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout).trim();
  }

  /** Waits for its line, and reads on, so that its output never fills up. */
  async #ready(): Promise<void> {
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => {});
    let log = "";
    const read = async () => {
      for await (const chunk of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
        log = (log + chunk).slice(-16384);
        if (log.includes("ready for connections")) ready.resolve();
      }
      ready.reject(new Error(`MariaDB ended: ${log}`));
    };
    read();
    await ready.promise;
  }

  async [Symbol.asyncDispose]() {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // it has ended
    }
    await this.#child.status;
    await Deno.remove(this.dir, { recursive: true });
  }
}
