/** The record of a session whose process ended without closing it is closed for it, so that it can be told where it ends. */
import { basename } from "node:path";
import { kill } from "node:process";
import { asSbxError } from "../base/error/mod.ts";
import { sealAbandoned } from "../ledger/mod.ts";
import { log } from "../base/log/mod.ts";
import type { SessionPaths } from "../session/mod.ts";

/**
 * Seals a session's ledger unless it is sealed. One that cannot be is told in the log: `sbx verify` says that it is not.
 *
 * @param pid of the session's process, which has to be gone: a ledger has one writer
 */
export async function sealRecord({ dir, ledger }: Pick<SessionPaths, "dir" | "ledger">, pid: number) {
  const id = basename(dir);
  if (await isProcessOf(id, pid)) return;
  await sealAbandoned(ledger, id).catch((error) => log(asSbxError(error, `sealing ${ledger}`).message));
}

/** Whether this is still the process of the session, and no other that got its number. */
async function isProcessOf(id: string, pid: number): Promise<boolean> {
  if (pid <= 0) return false;
  try {
    kill(pid, 0);
  } catch (error) {
    if ((error as { code?: string }).code === "ESRCH") return false;
  }
  // Where the system does not tell what it runs, it is taken for ours: then the ledger stays as it is.
  const line = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => undefined);
  return line === undefined ? true : line.includes(id);
}
