import { Ledger } from "./ledger.ts";
import { readSeal } from "./seal.ts";

/**
 * Seals the ledger of a session whose process is gone without having closed it, as it is found: nothing can be cut off
 * it unnoticed from then on. What was cut off before, the seal does not show.
 *
 * @returns whether there was something to seal
 * @throws {SbxError} `ledger.invalid`, `ledger.conflict`, `ledger.unavailable`
 */
export async function sealAbandoned(path: string, sessionId: string): Promise<boolean> {
  if (!await isFile(path) || await readSeal(path) !== undefined) return false;
  await (await Ledger.open(path, { sessionId })).close();
  return true;
}

function isFile(path: string): Promise<boolean> {
  return Deno.lstat(path).then((info) => info.isFile, () => false);
}
