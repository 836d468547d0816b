/** The gateway's files in the run directory (docs/design/contracts/01-homes.md §1). */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import {
  type Home,
  lockWithin,
  makeRunDir,
  namesThisProcess,
  removeIfThere,
  writeAtomic,
} from "../../base/home/mod.ts";

/** `ms` to wait for the lock of another gateway; one that is exiting releases it at once. */
const LOCK_DEADLINE_MS = 500;

/**
 * Locks a run directory for its one gateway; the operating system releases the lock when the process ends.
 *
 * @throws {SbxError} `gateway.already_running`
 */
export async function lockGateway({ runDir }: Home): Promise<Deno.FsFile> {
  await makeRunDir({ runDir });
  const file = await Deno.open(join(runDir, "gateway.lock"), { write: true, create: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_DEADLINE_MS)) return file;
  file.close();
  throw new SbxError(
    "gateway.already_running",
    `a gateway is already running for the run directory ${runDir}`,
    {
      hint: "stop it with sbx stop, or set SBX_HOME to another home",
    },
  );
}

/** Writes token, port and pid; the pid last, so that the other files exist once it does. */
export async function writeGatewayFiles(place: Home, token: string, port: number): Promise<void> {
  await writeAtomic(place.gatewayTokenFile, token);
  await writeAtomic(place.gatewayPortFile, `${port}\n`);
  await writeAtomic(place.gatewayPidFile, `${Deno.pid}\n`);
}

/** Removes the files of {@linkcode writeGatewayFiles}, unless they are another gateway's. */
export function removeGatewayFiles(place: Home): void {
  if (!namesThisProcess(place.gatewayPidFile)) return;
  for (const path of [place.gatewayPidFile, place.gatewayPortFile, place.gatewayTokenFile]) {
    removeIfThere(path);
  }
}
