/** Rows numbered below the first one, which no chain begins with, and tables replaced by views. */
import { assertEquals, assertMatch } from "@std/assert";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { copyLedger, execEvent, runSql, SESSION, withLedgerPath } from "../../helper/ledger.ts";

const COPY = "prev_hash, hash";
const TAMPERINGS: [what: string, statement: string, reason: RegExp][] = [
  [
    "an added event",
    `INSERT INTO entries SELECT -1, 'forged', event_type, event, ${COPY}, decision, rule_id, record, record_hash
       FROM entries WHERE sequence = 2`,
    /event 1 is missing/,
  ],
  [
    "an added outcome, which readers take for the first",
    `INSERT INTO outcomes SELECT 0, event_id, 'allow', outcome, ${COPY} FROM outcomes WHERE number = 1`,
    /outcome 1 is missing/,
  ],
  [
    "an added row of the journal",
    "INSERT INTO journal SELECT -5, kind, id, hash, prev_hash, link FROM journal WHERE number = 1",
    /row of the journal 1 is missing/,
  ],
  ["a changed body", "UPDATE body_blobs SET rowid = -1, bytes = x'aa'", /body [0-9a-f]{64} was changed/],
  [
    "a changed body in the last place",
    "UPDATE body_blobs SET rowid = 9223372036854775807, bytes = x'aa'",
    /is damaged, or not a ledger/,
  ],
  [
    "a view in place of a table",
    "ALTER TABLE outcomes RENAME TO own; CREATE VIEW outcomes AS SELECT * FROM own",
    /has a view outcomes, which no ledger has/,
  ],
  [
    "a trigger",
    "CREATE TRIGGER hide AFTER INSERT ON findings BEGIN DELETE FROM findings; END",
    /has a trigger hide, which no ledger has/,
  ],
];

Deno.test("verify finds rows in front of a chain, and what is no table of a ledger", (t) =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 0; at < 3; at++) {
        const event = execEvent(`echo ${at}`);
        ledger.append({
          event,
          decision: { decision: "block" },
          rows: at ? [] : [{ table: "body_blobs", bytes: new Uint8Array([1]) }],
        });
        ledger.end({ event_id: event.common.event_id, duration_ms: at });
      }
    }
    for (const [what, statement, reason] of TAMPERINGS) {
      await t.step(what, async () => {
        const copy = await copyLedger(path);
        // Without its seal: that has a hash of the whole file.
        await Deno.remove(`${copy}.seal`);
        await runSql(copy, statement);
        const { ok, first_bad } = await verifyLedger(copy);
        assertEquals(ok, false);
        assertMatch(first_bad!.reason, reason);
      });
    }
  }));
