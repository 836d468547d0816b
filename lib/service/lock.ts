import { SbxError } from "../base/error/mod.ts";
import { type Home, lockWithin } from "../base/home/mod.ts";

/** How long another service may take to let go of the lock: one that is just ending does so at once. */
const LOCK_DEADLINE_MS = 1000;

/**
 * Holds the run folder's one lock for as long as the returned file is open; the kernel lets go of it however this ends.
 *
 * @throws {SbxError} `service.running.conflict` when another service holds it
 */
export async function takeLock(home: Home): Promise<Deno.FsFile> {
  const file = await Deno.open(home.serviceLockFile, { create: true, read: true, write: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_DEADLINE_MS)) return file;
  file.close();
  const pid = await Deno.readTextFile(home.servicePidFile).catch(() => "unknown");
  throw new SbxError("service.conflict", `another sbx-service (pid ${pid.trim()}) runs on ${home.runDir}`, {
    hint: "sbx status shows it; SBX_RUN_DIR names another folder for a second one",
  });
}
