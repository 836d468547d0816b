import type { SessionList } from "../../../lib/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Verification, verifyLedger } from "../../../lib/ledger/read/mod.ts";
// Not through mod.ts, which loads the session.
import { sessionPaths } from "../../../lib/session/files/mod.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";

const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const VM_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

export const command: Command = {
  name: "verify",
  usage: "NAME|SESSION|FILE [--json]",
  summary: "verify a session's record: every event against the hash chain, the record against its seal",
  notes: ["The exit code is 1 if the record is invalid."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: [
    "sbx verify demo",
    "sbx verify 0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e",
    "sbx verify ./session.db --json",
  ],
  async run(args) {
    const { path, session } = await findLedger(args.words[0]);
    const { ok, events, sealed, first_bad } = await verifyLedger(path, session);
    if (args.has("json")) await printJson({ ok, path, events, sealed, first_bad });
    else if (!ok) {
      await print(`${path}: INVALID after ${count(events, "valid event")}: ${describe(first_bad)}`);
    } else {
      await print(`${path}: valid, ${count(events, "event")} as recorded`);
      if (!sealed) await print(NOT_SEALED);
    }
    return ok ? 0 : 1;
  },
};

/** Limits of a record without a seal. */
const NOT_SEALED =
  "It is NOT sealed, so its end is not proven: events, findings or answers could have been removed from it.\n" +
  "A record is sealed when its VM stops, or by the service when the VM's process is gone.";

/** Finds a ledger by the session's id, by file, or by the name of a VM, which selects its newest session. Only names need the service. */
async function findLedger(word: string): Promise<{ path: string; session?: string }> {
  if (SESSION_ID.test(word)) return await ledgerOfSession(word);
  if (await isFile(word)) return { path: word };
  if (VM_NAME.test(word)) {
    const { sessions } = await (await connect()).json<SessionList>("GET", "/sessions/list");
    const newest = sessions.find(({ name }) => name === word);
    if (newest) return await ledgerOfSession(newest.id);
  }
  throw notFound(`"${word}" is not the name of a VM, the id of a session or a file`);
}

async function ledgerOfSession(id: string): Promise<{ path: string; session: string }> {
  const { ledger } = sessionPaths(home(), id);
  if (await isFile(ledger)) return { path: ledger, session: id };
  throw notFound(`session ${id} has no record at ${ledger}`);
}

function notFound(message: string): SbxError {
  return new SbxError("ledger.not_found", message, {
    hint: "sbx sessions lists the recorded sessions with the names of their VMs",
  });
}

function isFile(path: string): Promise<boolean> {
  return Deno.stat(path).then((info) => info.isFile, () => false);
}

function describe(bad: Verification["first_bad"]): string {
  const place = bad?.event_id
    ? `event ${bad.event_id}: `
    : bad?.sequence
    ? `event number ${bad.sequence}: `
    : "";
  return place + (bad?.reason ?? "unknown reason");
}
