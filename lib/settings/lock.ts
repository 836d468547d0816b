import { SbxError } from "../error/mod.ts";

/** Longest wait for another writer; one takes milliseconds, so this one hangs. */
const LOCK_TIMEOUT_MS = 10_000;
const LOCK_RETRY_MS = 10;

/**
 * Runs `work` while no other sbx, in this process or another, runs any under the same lock file. The kernel frees the
 * lock of a process that dies.
 *
 * @throws {SbxError} `settings.busy` when another writer keeps the lock
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  using file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  const deadline = performance.now() + LOCK_TIMEOUT_MS;
  while (!await file.tryLock(true)) {
    if (performance.now() > deadline) {
      throw new SbxError("settings.busy", "another program keeps the settings locked", {
        hint: "close other sbx windows and try again",
      });
    }
    await new Promise((resolve) => setTimeout(resolve, LOCK_RETRY_MS));
  }
  return await work();
}
