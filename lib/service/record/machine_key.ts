import { asSbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";

/** Makes the key with which VMs sign their records, if it is missing; without it, seals are unsigned. */
export async function ensureMachineKey(home: Home): Promise<void> {
  try {
    await (await import("../../release/signing/mod.ts")).ensureSigningKey(home);
  } catch (error) {
    log.warn(`records are not signed: ${asSbxError(error, "reading the key of this machine").message}`);
  }
}
