/**
 * Debian's sshd on loopback with keys of its own, and a guest's way to it: the real proxy and the real ssh.
 */
import { join } from "node:path";
import { userInfo } from "node:os";
import type { NewCredential, SshTerms } from "../../lib/credential/mod.ts";
import { publicKeyOf } from "../../lib/base/ssh/mod.ts";
import { readSshSecret } from "../../lib/credential/ssh/mod.ts";
import { openCa } from "../../lib/network/ca/mod.ts";
import { guestHostKey } from "../../lib/network/ssh/mod.ts";
import { runChild } from "./child.ts";
import { type DatabaseWorld, databaseWorld, DB_HOST } from "./database.ts";
import { GIT_ENV } from "./git.ts";
import type { TestNetOptions } from "./net.ts";

/** User of this process, which sshd logs in. */
export const SSH_USER = userInfo().username;

/** Makes a key with ssh-keygen. @returns the path of the private one */
export async function sshKey(dir: string, name: string, ...args: string[]): Promise<string> {
  const path = join(dir, name);
  const type = args.includes("-t") ? [] : ["-t", "ed25519"];
  const { success, stderr } = await runChild("ssh-keygen", {
    args: ["-q", ...type, "-f", path, ...(args.includes("-N") ? [] : ["-N", ""]), ...args],
  });
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return path;
}

/** Type and bytes of a public key, without its comment. */
export async function publicLine(path: string): Promise<string> {
  return (await Deno.readTextFile(`${path}.pub`)).split(" ").slice(0, 2).join(" ");
}

export class SshServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  /** what it wrote */
  log = "";

  private constructor(
    readonly dir: string,
    readonly port: number,
    /** path of the user's key that it takes */
    readonly userKey: string,
    /** the server's, as in `known_hosts` */
    readonly hostKey: string,
    child: Deno.ChildProcess,
  ) {
    this.#child = child;
  }

  /** @param lines of its configuration @param keyArgs of the user's key */
  static async start(
    lines: string[] = [],
    keyArgs: string[] = [],
    hostKeyArgs: string[] = [],
  ): Promise<SshServer> {
    // A root's sshd needs its folder, which the boot of a machine makes.
    if (Deno.uid() === 0) await Deno.mkdir("/run/sshd", { recursive: true, mode: 0o755 });
    const dir = await Deno.makeTempDir({ prefix: "sbx-sshd-" });
    const [userKey, hostKey] = [
      await sshKey(dir, "user", ...keyArgs),
      await sshKey(dir, "host", ...hostKeyArgs),
    ];
    await Deno.copyFile(`${userKey}.pub`, join(dir, "authorized_keys"));
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    listener.close();
    const config = [
      `Port ${port}`,
      "ListenAddress 127.0.0.1",
      `HostKey ${hostKey}`,
      `AuthorizedKeysFile ${dir}/authorized_keys`,
      "PidFile none",
      "StrictModes no",
      "UsePAM no",
      "PasswordAuthentication no",
      "PermitRootLogin prohibit-password",
      "AcceptEnv GIT_PROTOCOL",
      "Subsystem sftp internal-sftp",
      "LogLevel VERBOSE",
      ...lines,
    ];
    await Deno.writeTextFile(join(dir, "sshd_config"), `${config.join("\n")}\n`);
    const child = new Deno.Command("/usr/sbin/sshd", {
      args: ["-D", "-e", "-f", join(dir, "sshd_config")],
      cwd: dir,
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const server = new SshServer(dir, port, userKey, await publicLine(hostKey), child);
    await server.#ready();
    return server;
  }

  /** Waits for its line, and reads on, so that its output never fills up. */
  async #ready(): Promise<void> {
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => {});
    const read = async () => {
      for await (const chunk of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
        this.log += chunk;
        if (this.log.includes("Server listening")) ready.resolve();
      }
      ready.reject(new Error(`sshd ended: ${this.log}`));
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

/** The credential of a key for {@linkcode DB_HOST}. */
export async function sshCredential(
  server: SshServer,
  terms: Partial<SshTerms["servers"][number]> = {},
  agent?: string,
): Promise<NewCredential> {
  const secret = await readSshSecret(await Deno.readTextFile(server.userKey));
  const host = `${DB_HOST}:22`;
  return {
    provider: "ssh",
    secret: agent === undefined ? secret : crypto.randomUUID(),
    hosts: [host],
    ssh: {
      public_key: publicKeyOf(secret).line,
      ...(agent !== undefined && { agent }),
      servers: [{ host, user: SSH_USER, host_keys: [server.hostKey], ...terms }],
    },
  };
}

/** Result of a program of the guest. */
export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/** A guest with an SSH client that trusts the host key of sbx only. */
export interface SshWorld extends AsyncDisposable {
  world: DatabaseWorld;
  /** arguments of ssh up to the host, and the host */
  args: string[];
  ssh(...args: string[]): Promise<Ran>;
  sshAs(user: string, ...args: string[]): Promise<Ran>;
  git(cwd: string, args: string[], env?: Record<string, string>): Promise<Ran>;
  /** address of a repository of the server */
  url(path: string): string;
}

export async function sshWorld(
  server: { port: number },
  credentials: NewCredential[],
  options: TestNetOptions & { providers?: string[] } = {},
): Promise<SshWorld> {
  const world = await databaseWorld(server, 22, credentials, options);
  const { publicKey } = await guestHostKey(await openCa({ dir: world.net.dir }));
  const known = join(world.net.dir, "known_hosts");
  await Deno.writeTextFile(known, `* ${publicKey}\n`);
  const args = [
    ...["-F", "/dev/null", "-p", String(world.port)],
    ...[`UserKnownHostsFile=${known}`, "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes"].flatMap(
      (option) => ["-o", option],
    ),
    ...["BatchMode=yes", "IdentityFile=/dev/null", "IdentityAgent=none"].flatMap((option) => ["-o", option]),
  ];
  const run = async (
    program: string,
    cwd: string | undefined,
    list: string[],
    env?: Record<string, string>,
  ) => {
    const { code, stdout, stderr } = await runChild(program, {
      args: list,
      ...(cwd && { cwd }),
      ...(env && { env }),
    });
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  };
  const command = `ssh ${args.map((arg) => `'${arg}'`).join(" ")}`;
  return {
    world,
    args,
    ssh: (...list) => run("ssh", undefined, [...args, `${SSH_USER}@127.0.0.1`, ...list]),
    sshAs: (user, ...list) => run("ssh", undefined, [...args, `${user}@127.0.0.1`, ...list]),
    git: (cwd, list, env = {}) => run("git", cwd, list, { ...GIT_ENV, GIT_SSH_COMMAND: command, ...env }),
    url: (path) => `ssh://${SSH_USER}@127.0.0.1${path}`,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}
