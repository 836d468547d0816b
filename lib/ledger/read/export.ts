/** Copies of the records of ended sessions, each verified (docs/design/contracts/12-ledger.md §12, "Retention"). */
import { join } from "node:path";
import { asSbxError, ifFound, SbxError } from "../../base/error/mod.ts";
import { verifyLedger } from "./verify.ts";

/** Parts of a record of an ended session: the ledger, writes that are not folded into it, its seal, and the states of its findings. */
const PARTS = ["", "-wal", ".seal", ".findings"];

/**
 * Copies a record with its seal to `DIR/SESSION`, and verifies the copy: the session has ended, so that a torn copy is noticed.
 *
 * @returns false: the session never recorded anything
 * @throws {SbxError} `session.export`: the folder cannot be written, or the copy is not a valid record
 */
export async function exportRecord(ledger: string, id: string, dir: string): Promise<boolean> {
  if (!await Deno.stat(ledger).then(({ isFile }) => isFile, () => false)) return false;
  const to = join(dir, id);
  try {
    await Deno.mkdir(to, { recursive: true, mode: 0o700 });
    for (const part of PARTS) await ifFound(Deno.copyFile(ledger + part, join(to, `session.db${part}`)));
  } catch (cause) {
    const { message } = asSbxError(cause, `copying the record of session ${id} to ${to}`);
    throw new SbxError("session.export", message, { cause, hint: `nothing was removed; check ${dir}` });
  }
  const { ok, first_bad } = await verifyLedger(join(to, "session.db"), id);
  if (ok) return true;
  throw new SbxError("session.export", `the copy in ${to} is not valid: ${first_bad?.reason ?? "unknown"}`, {
    hint: `nothing was removed; sbx verify ${id} checks the record itself`,
  });
}
