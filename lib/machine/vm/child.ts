import { join } from "node:path";
import { timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";

/** Longest log of a machine's helper program, in `bytes`; the rest is dropped. */
const LOG_LIMIT = 1024 * 1024;

/** Unit of processor times in /proc, in `ms`: USER_HZ is 100 on every architecture of ours. */
const TICK_MS = 10;

/**
 * Starts a program that cannot outlive this process: the kernel kills it with its parent
 * (`PR_SET_PDEATHSIG`). Its standard error goes to `<logs>/<name>.log`.
 *
 * @param options.takesInput its standard input is a pipe instead of nothing
 * @param options.mayGainPrivileges programs with set-user-id bits give it their privileges, as newuidmap must
 */
export function spawnBound(
  name: string,
  program: string,
  args: string[],
  logs: string,
  { mayGainPrivileges = false, takesInput = false } = {},
): Deno.ChildProcess {
  const child = new Deno.Command("setpriv", {
    args: [...mayGainPrivileges ? [] : ["--no-new-privs"], "--pdeathsig", "KILL", "--", program, ...args],
    stdin: takesInput ? "piped" : "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  drainToLog(child.stderr, join(logs, `${name}.log`));
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

/** Waits until a helper program listens on its socket; false when it ends first, takes too long, or `signal` is aborted. */
export async function waitForSocket(
  path: string,
  child: Deno.ChildProcess,
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
 * Whether a program accepts connections. A socket exists a moment before anyone listens on it, and trying it out is not
 * possible: helpers serve the first connection only.
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
export async function kill(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // already ended
  }
  await child.status;
}
