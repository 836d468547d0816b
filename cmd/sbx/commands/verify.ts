import type { SessionList } from "../../../lib/api/session.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { type Verification, verifyLedger } from "../../../lib/ledger/mod.ts";
import { sessionPaths } from "../../../lib/session/files/paths.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../output.ts";

const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const VM_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

export const command: Command = {
  name: "verify",
  usage: "NAME|SESSION|FILE [--json]",
  summary:
    "check a session's record: every event against the hash chain, all of it against its seal; exit code 1 if it does not hold",
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: [
    "sbx verify demo",
    "sbx verify 0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e",
    "sbx verify ./session.db --json",
  ],
  async run(given) {
    const path = await ledgerOf(given.words[0]);
    const { ok, events, sealed, first_bad } = await verifyLedger(path);
    if (given.on("json")) await printJson({ ok, path, events, sealed, first_bad });
    else if (!ok) await print(`${path}: does NOT hold after ${events} good events: ${describe(first_bad)}`);
    else {
      await print(`${path}: ${events} events, and every one is as it was recorded`);
      if (!sealed) await print(NOT_SEALED);
    }
    return ok ? 0 : 1;
  },
};

/** What a record without a seal does not prove. */
const NOT_SEALED =
  "It is NOT sealed, so its end is not proved: events, findings or answers could have been taken off it.\n" +
  "A record is sealed when its VM stops, and by the service when it finds that the VM's process is gone.";

/** The ledger that is meant. A session's id and a file need no service; a name means the last VM that had it. */
async function ledgerOf(what: string): Promise<string> {
  if (SESSION_ID.test(what)) return await ofSession(what);
  if (await isFile(what)) return what;
  if (VM_NAME.test(what)) {
    const { sessions } = await (await connect()).json<SessionList>("GET", "/sessions/list");
    const newest = sessions.find(({ name }) => name === what);
    if (newest) return await ofSession(newest.id);
  }
  throw notFound(`"${what}" is neither a VM's name, nor a session's id, nor a file`);
}

async function ofSession(id: string): Promise<string> {
  const { ledger } = sessionPaths(home(), id);
  if (await isFile(ledger)) return ledger;
  throw notFound(`there is no record of the session ${id} at ${ledger}`);
}

function notFound(message: string): SbxError {
  return new SbxError("ledger.not_found", message, {
    hint: "sbx sessions lists every session whose record is kept, with the name of its VM",
  });
}

function isFile(path: string): Promise<boolean> {
  return Deno.stat(path).then((info) => info.isFile, () => false);
}

function describe(bad: Verification["first_bad"]): string {
  const which = bad?.event_id
    ? `event ${bad.event_id}: `
    : bad?.sequence
    ? `event number ${bad.sequence}: `
    : "";
  return which + (bad?.reason ?? "unknown");
}
