/** The gateway's files in the run directory (contracts.md §1). */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../base/home/mod.ts";

/** How long another gateway may take to let go of the lock: one that is just ending does so at once. */
const LOCK_DEADLINE_MS = 500;

/** Held by the one gateway of a run directory; the operating system frees it when that process ends. */
export async function lockGateway({ runDir }: Home): Promise<Deno.FsFile> {
  await Deno.mkdir(runDir, { recursive: true, mode: 0o700 });
  const file = await Deno.open(join(runDir, "gateway.lock"), { write: true, create: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_DEADLINE_MS)) return file;
  file.close();
  throw new SbxError("gateway.already_running", `a gateway already serves the run directory ${runDir}`, {
    hint: "sbx stop ends it; SBX_HOME names another home",
  });
}

/** Writes token, port and pid; the pid last, so that whoever sees it finds the others. */
export async function writeGatewayFiles(place: Home, token: string, port: number): Promise<void> {
  await writeAtomic(place.gatewayTokenFile, token);
  await writeAtomic(place.gatewayPortFile, `${port}\n`);
  await writeAtomic(place.gatewayPidFile, `${Deno.pid}\n`);
}

/** Removes what {@linkcode writeGatewayFiles} wrote. */
export function removeGatewayFiles(place: Home): void {
  for (const path of [place.gatewayPidFile, place.gatewayPortFile, place.gatewayTokenFile]) {
    try {
      Deno.removeSync(path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}
