import { Ledger, type LedgerOptions } from "../ledger.ts";
import { readSeal } from "../seal.ts";

/**
 * Seals the ledger of a session whose process ended without closing it. From then on, nothing can be cut off unnoticed;
 * the seal does not reveal earlier cuts.
 *
 * @param sign as in the options of a ledger
 * @returns false if there is no ledger, or it has a seal
 * @throws {SbxError} as {@linkcode Ledger.open}
 */
export async function sealAbandoned(
  path: string,
  sessionId: string,
  sign?: LedgerOptions["sign"],
): Promise<boolean> {
  if (!await isFile(path) || await readSeal(path) !== undefined) return false;
  await (await Ledger.open(path, { sessionId, ...(sign && { sign }) })).close();
  return true;
}

function isFile(path: string): Promise<boolean> {
  return Deno.lstat(path).then((info) => info.isFile, () => false);
}
