/** Debian's Redis on loopback, in a folder of its own, as a user who is not root. */
import { join } from "node:path";
import { otherUser } from "./postgres.ts";

export class RedisServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(readonly dir: string, readonly port: number, child: Deno.ChildProcess) {
    this.#child = child;
  }

  /** @param lines of its configuration; `tls` has certificate and key */
  static async start(lines: string[], tls?: { cert: string; key: string }): Promise<RedisServer> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-redis-" });
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    listener.close();
    const config = [
      "bind 127.0.0.1",
      `dir ${dir}`,
      'save ""',
      tls
        ? `port 0\ntls-port ${port}\ntls-cert-file server.crt\ntls-key-file server.key\ntls-auth-clients no`
        : `port ${port}`,
      ...lines,
    ];
    const files: Record<string, string> = {
      "redis.conf": config.join("\n"),
      ...(tls && { "server.crt": tls.cert, "server.key": tls.key }),
    };
    const as = await otherUser();
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(join(dir, name), text, { mode: 0o600 });
      if (as) await Deno.chown(join(dir, name), as.uid, as.gid);
    }
    if (as) await Deno.chown(dir, as.uid, as.gid);
    const child = new Deno.Command("redis-server", {
      args: [join(dir, "redis.conf")],
      cwd: dir,
      stdout: "piped",
      stderr: "null",
      ...as,
    })
      .spawn();
    const server = new RedisServer(dir, port, child);
    await server.#ready();
    return server;
  }

  /** Waits for its line, and reads on, so that its output never fills up. */
  async #ready(): Promise<void> {
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => {});
    let log = "";
    const read = async () => {
      for await (const chunk of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
        log = (log + chunk).slice(-4096);
        if (log.includes("Ready to accept connections")) ready.resolve();
      }
      ready.reject(new Error(`Redis ended: ${log}`));
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
