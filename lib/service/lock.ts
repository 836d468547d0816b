import { SbxError } from "../base/error/mod.ts";
import { type Home, lockWithin } from "../base/home/mod.ts";

/** Longest wait for the lock, in `ms`: a service that is ending releases it at once. */
const LOCK_DEADLINE_MS = 1000;

/**
 * Takes the run folder's lock, until the returned file is closed; the kernel releases it however this process ends.
 *
 * @throws {SbxError} `service.conflict`: another service holds it
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
