import { basename, dirname, resolve } from "node:path";
import { kill } from "node:process";
import { asSbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { commandLineOf } from "../../base/process/mod.ts";
import { sealAbandoned } from "../../ledger/read/mod.ts";
import type { SessionPaths } from "../../session/mod.ts";

/**
 * Seals the ledger of a session whose process ended without closing it, so that its end can be verified. A failure is
 * logged, and `sbx verify` reports the missing seal.
 *
 * @param pid of the session's process; nothing is sealed while it runs, for a ledger has one writer
 */
export async function sealRecord({ dir, ledger }: Pick<SessionPaths, "dir" | "ledger">, pid: number) {
  const id = basename(dir);
  if (await isProcessOf(id, pid)) return;
  // Below the home: ledgers/<id>/session.db.
  const home = { dir: resolve(dirname(ledger), "../..") };
  const sign = async (text: string) =>
    await (await import("../../release/signing/mod.ts")).signSeal(home, text);
  try {
    // Up to 50 ms of rows may never have been written; the mark shows it to a collector of the record.
    if (await sealAbandoned(ledger, id, sign)) await Deno.writeTextFile(`${ledger}.unflushed`, "");
  } catch (error) {
    log.warn(asSbxError(error, `sealing ${ledger}`).message);
  }
}

/** Checks that a process is still the session's, and not another one with the same number. */
async function isProcessOf(id: string, pid: number): Promise<boolean> {
  if (pid <= 0) return false;
  try {
    kill(pid, 0);
  } catch (error) {
    if ((error as { code?: string }).code === "ESRCH") return false;
  }
  // A system that does not show command lines: assume that it is, which leaves the ledger unsealed.
  const words = await commandLineOf(pid);
  return words === undefined || words.includes(id);
}
