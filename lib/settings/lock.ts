import { SbxError } from "../base/error/mod.ts";
import { lockWithin } from "../base/home/mod.ts";

/** Longest wait for another writer; one takes milliseconds, so this one hangs. */
const LOCK_TIMEOUT_MS = 10_000;

/** The last one of this process to want each file: they take turns, so that only one of them waits for the kernel. */
const turns = new Map<string, Promise<unknown>>();

/**
 * Runs `work` while no other sbx, in this process or another, runs any under the same lock file. The kernel frees the
 * lock of a process that dies.
 *
 * @throws {SbxError} `settings.busy` when another writer keeps the lock
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const turn = (turns.get(path) ?? Promise.resolve()).then(() => locked(path, work));
  const ended = turn.catch(() => {});
  turns.set(path, ended);
  try {
    return await turn;
  } finally {
    if (turns.get(path) === ended) turns.delete(path);
  }
}

async function locked<T>(path: string, work: () => Promise<T>): Promise<T> {
  using file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_TIMEOUT_MS)) return await work();
  throw new SbxError("settings.busy", "another program keeps the settings locked", {
    hint: "close other sbx windows and try again",
  });
}
