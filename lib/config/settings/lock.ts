/** Locks a file that people edit, such as settings.toml or a rule file, for one writer at a time. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { lockWithin } from "../../base/home/mod.ts";

/** Maximum wait for another writer, in `ms`; a write takes milliseconds, so a longer one hangs. */
const LOCK_TIMEOUT_MS = 10_000;

/** Tail of this process's queue for each file, so that only one task at a time waits for the kernel lock. */
const queues = new Map<string, Promise<unknown>>();

/**
 * Runs `work` while this task alone has a lock file, among all tasks of this and other sbx processes. The
 * kernel frees the lock of a process that dies.
 *
 * @throws {SbxError} `settings.busy`: another writer holds the lock
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const result = (queues.get(path) ?? Promise.resolve()).then(() => runLocked(path, work));
  const tail = result.catch(ignore("the caller has the failure; the next task runs"));
  queues.set(path, tail);
  try {
    return await result;
  } finally {
    if (queues.get(path) === tail) queues.delete(path);
  }
}

async function runLocked<T>(path: string, work: () => Promise<T>): Promise<T> {
  using file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_TIMEOUT_MS)) return await work();
  throw new SbxError("settings.busy", `another program holds the lock ${path}`, {
    hint: "close other sbx windows and try again",
  });
}
