/** The ledger named by a person. */
import type { SessionList } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
// Not through mod.ts, which loads the session.
import { sessionPaths } from "../../../lib/session/files/mod.ts";
import { connect } from "../connect.ts";

const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const VM_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

/**
 * Finds a ledger by the session's id, by file, or by the name of a VM, which selects its newest
 * session. Only names need the service.
 */
export async function findLedger(word: string): Promise<{ path: string; session?: string }> {
  if (SESSION_ID.test(word)) return await ledgerOfSession(word);
  if (await isFile(word)) return { path: word };
  let near: string | undefined;
  if (VM_NAME.test(word)) {
    const { sessions } = await (await connect()).json<SessionList>("GET", "/sessions/list");
    const newest = sessions.find(({ name }) => name === word);
    if (newest) return await ledgerOfSession(newest.id);
    const { didYouMean } = await import("../../../lib/base/text/mod.ts");
    near = didYouMean(word, sessions.map(({ name }) => name));
  }
  throw notFound(`"${word}" is not the name of a VM, the id of a session or a file`, near);
}

async function ledgerOfSession(id: string): Promise<{ path: string; session: string }> {
  const { ledger } = sessionPaths(home(), id);
  if (await isFile(ledger)) return { path: ledger, session: id };
  throw notFound(`session ${id} has no record at ${ledger}`);
}

function notFound(message: string, near?: string): SbxError {
  return new SbxError("ledger.not_found", message, {
    hint: near ?? "sbx sessions lists the recorded sessions with the names of their VMs",
  });
}

function isFile(path: string): Promise<boolean> {
  return Deno.stat(path).then((info) => info.isFile, () => false);
}
