/**
 * Copies of the records of ended sessions, each verified
 * (docs/design/contracts/12-ledger.md §12, "Retention").
 */
import { join } from "node:path";
import { asSbxError, ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { verifyLedger } from "./verify.ts";

/**
 * Parts of a record of an ended session: the ledger, writes that are not folded into it, its seal,
 * and the states of its findings.
 */
const PARTS = ["", "-wal", ".seal", ".findings"];

/**
 * Copies a record with its seal to `DIR/SESSION`, and verifies the copy: the session has ended, so that a
 * torn copy is noticed. The copy is made in a new folder of this user and takes its place when it is
 * valid and on the disk: an earlier copy stays whole until then, and whatever is there, of another user
 * or a link, is not written through.
 *
 * @returns false: the session never recorded anything
 * @throws {SbxError} `session.export`: the folder cannot be written, or the copy is not a valid record
 */
export async function exportRecord(ledger: string, id: string, dir: string): Promise<boolean> {
  if (!await Deno.stat(ledger).then(({ isFile }) => isFile, () => false)) return false;
  const to = join(dir, id);
  let made: string | undefined;
  try {
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
    made = await Deno.makeTempDir({ dir, prefix: `.${id}.` });
    for (const part of PARTS) await ifFound(Deno.copyFile(ledger + part, join(made, `session.db${part}`)));
    const { ok, first_bad } = await verifyLedger(join(made, "session.db"), id);
    if (!ok) {
      throw new SbxError(
        "session.export",
        `the copy in ${dir} is not valid: ${first_bad?.reason ?? "unknown"}`,
        {
          hint: `nothing was removed; sbx verify ${id} checks the record itself`,
        },
      );
    }
    for await (const { name } of Deno.readDir(made)) await sync(join(made, name));
    await sync(made);
    await ifFound(Deno.remove(to, { recursive: true }));
    await Deno.rename(made, to);
    await sync(dir);
    return true;
  } catch (cause) {
    if (made !== undefined) {
      await Deno.remove(made, { recursive: true }).catch(
        ignore("the export has failed, which its caller reports"),
      );
    }
    if (cause instanceof SbxError) throw cause;
    const { message } = asSbxError(cause, `copying the record of session ${id} to ${to}`);
    throw new SbxError("session.export", message, { cause, hint: `nothing was removed; check ${dir}` });
  }
}

/** Waits until a file or folder is on the disk: its original goes next. */
async function sync(path: string): Promise<void> {
  using file = await Deno.open(path);
  await file.sync();
}
