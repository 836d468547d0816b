/** Files of a home: atomic writes, locks, and the wait for a removal. */
import { dirname, join } from "node:path";
import { ignore } from "../error/mod.ts";
import { backgroundInterval, timeLimit } from "../time/mod.ts";
import { writeAll } from "../wire/mod.ts";

/**
 * Writes a file atomically: readers see the old bytes or the new ones, never a part. Temporary file in the
 * same folder, fsync, rename; on failure the temporary file is removed.
 *
 * @param mode permission bits, default 0o600: files of sbx are private to its user. Others are the file's
 * under any umask: root, whose umask may be 077, writes files that all may read too.
 */
export async function writeAtomic(path: string, data: string | Uint8Array, mode = 0o600): Promise<void> {
  const temporary = join(dirname(path), `.${crypto.randomUUID()}.tmp`);
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  try {
    using file = await Deno.open(temporary, { write: true, createNew: true, mode });
    await writeAll(file, bytes);
    if (mode !== 0o600) await Deno.chmod(temporary, mode);
    await file.sync();
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary).catch(ignore("the write has failed, and may have made no file"));
    throw error;
  }
}

/**
 * Takes the exclusive lock of an open file, or gives up after `ms`, on a slow machine later
 * ({@linkcode timeLimit}). The kernel frees the lock when the file is closed, even by a crash. A lock granted
 * after the timeout is freed at once, since its file is closed by then.
 *
 * Uses `lock` alone, which occupies one of Deno's few blocking threads while waiting: the runtime used to
 * test compiled programs has no `tryLock`.
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
 * Tests whether a pid file names this process. A home that was removed and made again has the files of
 * another one, which a process of the home before must leave alone.
 */
export function namesThisProcess(pidFile: string): boolean {
  try {
    return Number(Deno.readTextFileSync(pidFile)) === Deno.pid;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Time between two checks of a folder, in `ms`. */
const LOOK_MS = 10_000;

/**
 * Calls `then` when a folder is gone or was replaced: its program is out of reach once its files are removed,
 * and would never end.
 */
export async function onRemoval(dir: string, then: () => void): Promise<void> {
  const { dev, ino } = await Deno.stat(dir);
  const timer = backgroundInterval(async () => {
    const now = await Deno.stat(dir).catch((error) =>
      error instanceof Deno.errors.NotFound ? undefined : { dev, ino }
    );
    if (now?.dev === dev && now.ino === ino) return;
    clearInterval(timer);
    then();
  }, LOOK_MS);
}
