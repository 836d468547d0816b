/**
 * Debian's nats-server with JetStream, as a process that can be killed and
 * started again on its port and folder.
 */
import { fromRoot } from "./repo.ts";

export class NatsServer implements AsyncDisposable {
  #child?: Deno.ChildProcess;

  private constructor(readonly dir: string, readonly port: number, readonly config: string) {}

  /** @param config further lines of its configuration */
  static async start(config = ""): Promise<NatsServer> {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    listener.close();
    const server = new NatsServer(await Deno.makeTempDir(), port, config);
    await server.begin();
    return server;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  async begin(): Promise<void> {
    const path = `${this.dir}/server.conf`;
    await Deno.writeTextFile(
      path,
      `listen: "127.0.0.1:${this.port}"\njetstream { store_dir: "${this.dir}/store" }\n${this.config}\n`,
    );
    const program = Deno.env.get("SBX_NATS_SERVER") ?? fromRoot(".cache/nats/usr/sbin/nats-server");
    this.#child = new Deno.Command(program, { args: ["-c", path], stdout: "null", stderr: "null" }).spawn();
    for (let tries = 0;; tries++) {
      const connection = await Deno.connect({ port: this.port }).catch(() => undefined);
      if (connection) return connection.close();
      if (tries > 200) throw new Error(`nats-server does not listen; try ${program} -c ${path}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#child?.status;
    this.#child = undefined;
  }

  async [Symbol.asyncDispose]() {
    await this.kill();
    await Deno.remove(this.dir, { recursive: true });
  }
}
