/**
 * The contract of one session. The service writes it beside the VM's record, from the profile at boot and
 * from corp as it is now; the VM's process reads it at boot and at each refresh. So no process of a VM reads
 * profiles, corp files or settings, and its rules outlive the service.
 */
import { writeAtomic } from "../../base/home/mod.ts";
import { type Compiled, dropDuplicates, type DroppedRule, withoutRules } from "../../detection/mod.ts";
import type { Contract } from "./contract_schema.ts";
import type { VmPaths } from "./paths.ts";
import { checkJson, type FileError, readJson } from "./record.ts";

export type { Contract } from "./contract_schema.ts";

/**
 * Reaction to a ledger that cannot be written: the VM is paused, or every action
 * that needs a record is refused.
 */
export type OnFull = Contract["ledger"]["on_full"];

const ERROR: FileError = {
  code: "session.contract",
  what: "contract",
  hint: "stop the VM and start it again: that writes a new contract",
};

type DetectionParts = Pick<Contract, "corp" | "profile" | "detection">;

/**
 * Every detection of a session, each id once: corp's count more than the profile's, those more than the
 * user's and the overlays. Rules that the user switched off are left out, except corp's.
 */
export function detectionsOf(parts: DetectionParts): Compiled[] {
  return resolved(parts).irs;
}

/** Rules that a session leaves out, because an earlier pack has their id. */
export function droppedOf(parts: DetectionParts): DroppedRule[] {
  return resolved(parts).dropped;
}

function resolved({ corp, profile, detection: { user, runtime, off = [] } }: DetectionParts) {
  return dropDuplicates([...corp.packs, ...withoutRules([...profile.packs, ...user, ...runtime], off)]);
}

/** Sinks for the findings of each pack that names some. Of two packs with one id, corp's counts. */
export function exportRoutesOf(
  { corp, profile, detection }: DetectionParts,
): Record<string, string[]> {
  return { ...detection.export_routes, ...profile.export_routes, ...corp.export_routes };
}

/**
 * @throws {SbxError} `session.contract`: missing, damaged, or with a field that is wrong;
 * nothing runs without a contract
 */
export async function readContract({ contract }: Pick<VmPaths, "contract">): Promise<Contract> {
  const { Contract } = await import("./contract_schema.ts");
  return await readJson(contract, Contract, ERROR);
}

/**
 * Writes a contract, unless the file has it already: a full disk must not refuse a change that needs no room.
 *
 * @throws {SbxError} `session.contract`: a field is wrong; the file stays as it was
 */
export async function writeContract(
  { contract }: Pick<VmPaths, "contract">,
  content: Contract,
): Promise<void> {
  const { Contract } = await import("./contract_schema.ts");
  const text = JSON.stringify(await checkJson(content, contract, Contract, ERROR)) + "\n";
  if (await Deno.readTextFile(contract).catch(() => undefined) === text) return;
  await writeAtomic(contract, text);
}
