/** Programs beside QEMU that serve a machine's vsock and shared folder, and child processes in general. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { removeIfThere } from "../../base/home/mod.ts";
import { SOCKETS } from "./command.ts";
import { AS_ROOT_OF_A_NAMESPACE, liveArguments, type MachineSpec } from "./hypervisor.ts";
import type { Launcher, MachineProgram } from "./launcher.ts";
import type { Tools } from "./tools.ts";
import { join } from "node:path";
import { timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";

/** CID of every guest; each machine has its own vsock, so that all can share it. */
const GUEST_CID = "3";
const VSOCK = "vhost-device-vsock";

/** A program whose end can be waited for. */
interface HasStatus {
  status: Promise<unknown>;
}

type HelperSpec = Pick<MachineSpec, "dir" | "logs" | "live"> & { workspace: string };

/** Both programs; neither needs a kernel module or root on the host. */
export class Helpers {
  /** settles when one of them has ended unasked */
  readonly failed: Promise<void>;
  readonly #tools: Tools;
  readonly #spec: HelperSpec;
  readonly #launcher: Launcher;
  #vsock: Promise<MachineProgram>;
  readonly #files: Deno.ChildProcess;
  /** whose end is no failure */
  #expected: Promise<MachineProgram> | undefined;
  #listened: Promise<void> | undefined;
  readonly #fail = Promise.withResolvers<void>();

  constructor(tools: Tools, spec: HelperSpec, launcher: Launcher) {
    this.#tools = tools;
    this.#spec = spec;
    this.#launcher = launcher;
    this.failed = this.#fail.promise;
    // A machine that failed before this one leaves its sockets.
    for (const name of Object.values(SOCKETS)) removeIfThere(`${spec.dir}/${name}`);
    this.#vsock = this.#startVsock();
    this.#files = spawnFiles(tools, spec);
    this.#files.status.then(() => this.#fail.resolve());
  }

  /** Waits until both can be connected to. @throws {SbxError} `vm.boot_failed`: names the one that cannot */
  listening(): Promise<void> {
    // Looked at once: each listens no more when its first connection is there.
    return this.#listened ??= Promise.all([
      this.#listening("virtiofsd", SOCKETS.files, this.#files),
      this.#vsockListening(),
    ]).then(() => {});
  }

  /** A new vsock in place of one that was ejected. */
  async renewVsock(): Promise<void> {
    const before = this.#vsock;
    this.#expected = before;
    await kill(await before);
    removeIfThere(`${this.#spec.dir}/${SOCKETS.vsock}`);
    this.#vsock = this.#startVsock();
    await this.#vsockListening();
  }

  /** The vsock may end: its device was taken out of the machine. */
  expectVsockEnd(): void {
    this.#expected = this.#vsock;
  }

  async kill(): Promise<void> {
    const vsock = this.#vsock.then(kill, ignore("it did not start"));
    await Promise.all([vsock, kill(this.#files)]);
  }

  #startVsock(): Promise<MachineProgram> {
    const { dir, logs } = this.#spec;
    const args = ["--guest-cid", GUEST_CID, "--socket", `${dir}/${SOCKETS.vsock}`, "--uds-path", `${dir}/v`];
    const started = spawnConfined(this.#launcher, VSOCK, [this.#tools.vsock, ...args], logs);
    started.then(async (program) => {
      program.stdout.cancel();
      program.stdin.close();
      await program.status;
      if (started !== this.#expected) this.#fail.resolve();
    }).catch(ignore("each wait for its socket gets it"));
    return started;
  }

  async #vsockListening(): Promise<void> {
    await this.#listening(VSOCK, SOCKETS.vsock, await this.#vsock);
  }

  async #listening(name: string, socket: string, child: HasStatus): Promise<void> {
    const { dir, logs } = this.#spec;
    if (await waitForSocket(`${dir}/${socket}`, child)) return;
    throw new SbxError("vm.boot_failed", `${name} did not start`, { hint: `its log is ${logs}/${name}.log` });
  }
}

/**
 * A virtiofsd finds its predecessor's files by their names. A missing file is an error for the guest's
 * programs that use it, not the end of all others: the workspace is a host folder, where any program may
 * remove one.
 */
const MIGRATION = ["--migration-mode", "find-paths", "--migration-on-error", "guest-error"];

/**
 * Time for which a guest keeps names and states of files where it hears of the host's changes, in `s`. A
 * change of which it does not hear shows after that time.
 */
const WATCHED_KEPT_SECONDS = 300;

function spawnFiles(tools: Tools, { dir, logs, workspace, live }: HelperSpec): Deno.ChildProcess {
  const isRoot = Deno.uid() === 0;
  // Without root it gets its user namespace from newuidmap.
  const options = { mayGainPrivileges: !isRoot };
  const socket = `--socket-path=${dir}/${SOCKETS.files}`;
  const { virtiofsd, virtiofsdIsLegacy: isLegacy } = tools;
  const args = isLegacy
    ? [socket, "-o", `source=${workspace}`, "-o", "cache=auto", "-o", "no_posix_lock"]
    : [socket, "--shared-dir", workspace, "--cache", "auto", "--sandbox", "namespace"];
  if (tools.virtiofsdCanMigrate) args.push(...MIGRATION);
  // Its successor has no such option, and keeps them for a second.
  if (live?.isWatched && isLegacy) args.push("-o", `timeout=${WATCHED_KEPT_SECONDS}`);
  // A listing must not look up masked entries: it would end there.
  if (live) args.push(...isLegacy ? ["-o", "no_readdirplus"] : ["--no-readdirplus"]);
  // Only the host's root may raise it.
  if (!isRoot && (isLegacy || live)) args.push("--rlimit-nofile=0");
  const first = isLegacy && !isRoot ? PRIVATE_RUN : "";
  if (live) {
    const command = liveArguments(live, [virtiofsd, ...args], first);
    return spawnFileServer("unshare", command, logs, options);
  }
  if (!isLegacy || isRoot) return spawnFileServer(virtiofsd, args, logs, options);
  const script = `${first}exec setpriv --pdeathsig KILL -- "$@"`;
  return spawnFileServer(
    "unshare",
    [...AS_ROOT_OF_A_NAMESPACE, "--", "/bin/sh", "-c", script, "sh", virtiofsd, ...args],
    logs,
    options,
  );
}

/**
 * QEMU's own virtiofsd needs root and writes below /run: for other users it runs as
 * root of a namespace with its own.
 */
const PRIVATE_RUN = "mount -t tmpfs run /run && ";

/** Longest log of a machine's helper program, in `bytes`; the rest is dropped. */
const LOG_LIMIT = 1024 * 1024;

/** Unit of processor times in /proc, in `ms`: USER_HZ is 100 on every architecture of ours. */
const TICK_MS = 10;

/** Words before a program that the kernel kills with the thread that started it (`PR_SET_PDEATHSIG`). */
const BOUND = ["setpriv", "--pdeathsig", "KILL"];
/** Root's programs keep none of its capabilities; others have none. */
const UNPRIVILEGED = ["--bounding-set=-all", "--inh-caps=-all"];

/**
 * Starts a program of a machine that cannot outlive this process. Its standard error goes to
 * `<logs>/<name>.log`.
 *
 * @param keep open files of this process that it gets
 */
export async function spawnConfined(
  launcher: Launcher,
  name: string,
  argv: string[],
  logs: string,
  keep: number[] = [],
): Promise<MachineProgram> {
  const guard = [...BOUND, ...Deno.uid() === 0 ? UNPRIVILEGED : [], "--"];
  const program = await launcher.spawn([...guard, ...argv], keep);
  drainToLog(program.stderr, join(logs, `${name}.log`));
  return program;
}

/**
 * Starts a file server, which mounts its folder as the root of namespaces of its own: in a thread confined by
 * Landlock it could mount nothing.
 *
 * @param options.mayGainPrivileges programs with set-user-id bits give it their privileges, as newuidmap must
 */
function spawnFileServer(
  program: string,
  args: string[],
  logs: string,
  { mayGainPrivileges }: { mayGainPrivileges: boolean },
): Deno.ChildProcess {
  const [command, ...bound] = BOUND;
  const child = new Deno.Command(command, {
    args: [...mayGainPrivileges ? [] : ["--no-new-privs"], ...bound, "--", program, ...args],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  drainToLog(child.stderr, join(logs, "virtiofsd.log"));
  return child;
}

/** Writes a stream to a file up to {@linkcode LOG_LIMIT}; drops the rest, so that the writer never blocks. */
async function drainToLog(from: ReadableStream<Uint8Array>, path: string): Promise<void> {
  let remaining = LOG_LIMIT;
  using file = await Deno.open(path, { create: true, write: true, truncate: true, mode: 0o600 }).catch(() =>
    undefined
  );
  for await (const chunk of from) {
    if (remaining <= 0) continue;
    // On a full disk the log stops; the machine must not.
    if (file) await writeAll(file, chunk.subarray(0, remaining)).catch(() => remaining = 0);
    remaining -= chunk.length;
  }
}

/** Longest wait for a helper program's socket, in `ms`. */
const LISTEN_MS = timeLimit(5000);

/**
 * Waits until a helper program listens on its socket; false when it ends first, takes
 * too long, or `signal` is aborted.
 */
export async function waitForSocket(
  path: string,
  child: HasStatus,
  deadlineMs = LISTEN_MS,
  signal?: AbortSignal,
): Promise<boolean> {
  let ended = false;
  child.status.then(() => ended = true);
  const deadline = performance.now() + deadlineMs;
  while (performance.now() < deadline && !ended && !signal?.aborted) {
    if (await isListening(path)) return true;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return false;
}

/** The kernel's table of Unix sockets, and the flag of sockets that accept connections (`SO_ACCEPTCON`). */
const UNIX_SOCKETS = "/proc/net/unix";
const ACCEPTS = / 00010000 /;

/**
 * Whether a program accepts connections. A socket exists a moment before anyone listens on it, and trying it
 * out is not possible: helpers serve the first connection only.
 */
async function isListening(path: string): Promise<boolean> {
  if (!await Deno.lstat(path).catch(() => undefined)) return false;
  const sockets = (await Deno.readTextFile(UNIX_SOCKETS)).split("\n");
  return sockets.some((line) => line.endsWith(` ${path}`) && ACCEPTS.test(line));
}

/** Processor time that a program has used, in `ms`. */
export async function cpuMs(pid: number): Promise<number> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  // From the third field on: the second one, a name, may hold anything.
  const [utime, stime] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 13);
  return (Number(utime) + Number(stime)) * TICK_MS;
}

/** Kills a program and waits for its end. */
export async function kill(child: HasStatus & Pick<MachineProgram, "kill">): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // already ended
  }
  await child.status;
}
