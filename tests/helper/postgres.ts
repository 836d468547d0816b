/** Debian's PostgreSQL on loopback, in a folder of its own, as a user who is not root. */
import { join } from "node:path";
import { runChild } from "./child.ts";

export class PostgresServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(readonly dir: string, readonly port: number, child: Deno.ChildProcess) {
    this.#child = child;
  }

  /**
   * Starts a server with the superuser `admin`, whose password is `admin-password`.
   *
   * @param options.tls certificate and key; absent: without TLS
   * @param options.hba lines of pg_hba.conf for TCP
   * @param options.settings lines of postgresql.conf
   */
  static async start(
    options: { tls?: { cert: string; key: string }; hba?: string; settings?: string } = {},
  ): Promise<PostgresServer> {
    const bin = await binFolder();
    const dir = await Deno.makeTempDir({ prefix: "sbx-pg-" });
    const data = join(dir, "data");
    await Deno.writeTextFile(join(dir, "password"), "admin-password\n");
    const as = await otherUser();
    if (as) { for (const path of [dir, join(dir, "password")]) await Deno.chown(path, as.uid, as.gid); }
    const made = await runChild(join(bin, "initdb"), {
      args: [
        "-D",
        data,
        "-U",
        "admin",
        "-A",
        "scram-sha-256",
        `--pwfile=${join(dir, "password")}`,
        "-E",
        "UTF8",
        "--no-sync",
      ],
      // The folder of the tests may be closed to another user.
      cwd: dir,
      ...as,
    });
    if (made.code !== 0) throw new Error(new TextDecoder().decode(made.stderr));
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    listener.close();
    const lines = [
      `listen_addresses = '127.0.0.1'`,
      `port = ${port}`,
      `unix_socket_directories = '${dir}'`,
      "fsync = off",
    ];
    if (options.tls) {
      const { cert, key } = options.tls;
      for (const [name, text] of [["server.crt", cert], ["server.key", key]]) {
        await Deno.writeTextFile(join(data, name), text, { mode: 0o600 });
        if (as) await Deno.chown(join(data, name), as.uid, as.gid);
      }
      lines.push("ssl = on");
    }
    await Deno.writeTextFile(join(data, "postgresql.conf"), [...lines, options.settings ?? ""].join("\n"));
    if (options.hba) await Deno.writeTextFile(join(data, "pg_hba.conf"), `${options.hba}\n`);
    const child = new Deno.Command(join(bin, "postgres"), {
      args: ["-D", data],
      cwd: dir,
      stdout: "null",
      stderr: "piped",
      ...as,
    }).spawn();
    const server = new PostgresServer(dir, port, child);
    await server.#ready();
    return server;
  }

  /** Runs SQL as the superuser, not through sbx. */
  async sql(text: string): Promise<string> {
    const { code, stdout, stderr } = await runChild("psql", {
      args: [
        "-h",
        "127.0.0.1",
        "-p",
        String(this.port),
        "-U",
        "admin",
        "-d",
        "postgres",
        "-v",
        "ON_ERROR_STOP=1",
        "-Atc",
        text,
      ],
      env: { PGPASSWORD: "admin-password" },
    });
    if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout).trim();
  }

  /** What the server logged. */
  log = "";

  async #ready(): Promise<void> {
    const ready = Promise.withResolvers<void>();
    const read = async () => {
      for await (const chunk of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
        this.log += chunk;
        if (this.log.includes("ready to accept connections")) ready.resolve();
      }
      ready.reject(new Error(`PostgreSQL ended: ${this.log}`));
    };
    read();
    await ready.promise;
    ready.promise.catch(() => {});
  }

  async [Symbol.asyncDispose]() {
    try {
      this.#child.kill("SIGQUIT");
    } catch {
      // it has ended
    }
    await this.#child.status;
    await Deno.remove(this.dir, { recursive: true });
  }
}

async function binFolder(): Promise<string> {
  const versions: string[] = [];
  for await (const { name } of Deno.readDir("/usr/lib/postgresql")) versions.push(name);
  return `/usr/lib/postgresql/${versions.toSorted((a, b) => Number(b) - Number(a))[0]}/bin`;
}

/** Databases refuse to run as root. */
export async function otherUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (Deno.uid() !== 0) return undefined;
  const line = (await Deno.readTextFile("/etc/passwd")).split("\n").find((each) =>
    each.startsWith("nobody:")
  )!;
  const [, , uid, gid] = line.split(":");
  return { uid: Number(uid), gid: Number(gid) };
}
