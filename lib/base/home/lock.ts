import { ignore } from "../error/mod.ts";
import { timeLimit } from "../time/mod.ts";

/**
 * Takes the exclusive lock of an open file, or gives up after `ms`, on a slow machine later ({@linkcode timeLimit}).
 * The kernel frees the lock when the file is closed, even by a crash. A lock granted after the timeout is freed at once,
 * since its file is closed by then.
 *
 * Uses `lock` alone, which occupies one of Deno's few blocking threads while waiting: the runtime used to test compiled
 * programs has no `tryLock`.
 *
 * @returns true if the lock was acquired
 */
export async function lockWithin(file: Deno.FsFile, ms: number): Promise<boolean> {
  const acquired = file.lock(true).then(() => true);
  acquired.catch(ignore("the caller has given up after the time limit"));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timedOut = new Promise<false>((resolve) => timer = setTimeout(() => resolve(false), timeLimit(ms)));
  try {
    return await Promise.race([acquired, timedOut]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Tests whether a pid file names this process. A home that was removed and made again has the files of another one, which
 * a process of the home before must leave alone.
 */
export function namesThisProcess(pidFile: string): boolean {
  try {
    return Number(Deno.readTextFileSync(pidFile)) === Deno.pid;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
