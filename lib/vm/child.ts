import { join } from "node:path";

/** Largest log that a helper program of a machine may write before it is cut. */
const LOG_LIMIT = 1024 * 1024;

/**
 * Starts a program that must not outlive this process, however it ends: the kernel kills it with its parent
 * (`PR_SET_PDEATHSIG`), and it can never gain privileges. What it says goes to `<logs>/<name>.log`.
 */
export function spawnBound(name: string, program: string, args: string[], logs: string): Deno.ChildProcess {
  const child = new Deno.Command("setpriv", {
    args: ["--pdeathsig", "KILL", "--", program, ...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  drainToLog(child.stderr, join(logs, `${name}.log`));
  return child;
}

/** Writes a stream to a file until {@linkcode LOG_LIMIT}, then reads on and drops: the writer must never block. */
export async function drainToLog(from: ReadableStream<Uint8Array>, path: string): Promise<void> {
  let left = LOG_LIMIT;
  using file = await Deno.open(path, { create: true, write: true, truncate: true, mode: 0o600 }).catch(() =>
    undefined
  );
  for await (const chunk of from) {
    if (left <= 0) continue;
    // A full disk must not end the machine because of a log.
    await file?.write(chunk.subarray(0, left)).catch(() => left = 0);
    left -= chunk.length;
  }
}

/** Waits until a helper program has made its socket. */
export async function waitForSocket(
  path: string,
  child: Deno.ChildProcess,
  deadlineMs = 5000,
): Promise<boolean> {
  let gone = false;
  child.status.then(() => gone = true);
  for (const deadline = performance.now() + deadlineMs; performance.now() < deadline && !gone;) {
    if (await Deno.lstat(path).then(() => true, () => false)) return true;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return false;
}
