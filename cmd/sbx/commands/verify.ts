import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Verification, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { findLedger } from "../ledger_path.ts";

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

function describe(bad: Verification["first_bad"]): string {
  const place = bad?.event_id
    ? `event ${bad.event_id}: `
    : bad?.sequence
    ? `event number ${bad.sequence}: `
    : "";
  return place + (bad?.reason ?? "unknown reason");
}
