/** Rows numbered below the first one, which no chain begins with, and tables replaced by views. */
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readEvents, readHeads, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { askLedger } from "../../../lib/ledger/sql/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { copyLedger, execEvent, runSql, SESSION, withLedgerPath } from "../../helper/ledger.ts";

/** A view that never has a row, and never ends. */
const endless = (view: string, table: string) =>
  `ALTER TABLE ${table} RENAME TO own; CREATE VIEW ${view} AS
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT own.* FROM n, own WHERE i < 0`;
const ENDLESS = [["Entries", "entries"], ["ledger_info", "ledger_info"], ["LEDGER_BOUND", "ledger_bound"]];

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
  ...ENDLESS.map(([view, table]) =>
    [
      `a view ${view} without an end`,
      endless(view, table),
      new RegExp(`has a view ${view}, which no ledger has`),
    ] satisfies typeof TAMPERINGS[number]
  ),
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

Deno.test("no reader begins with a view in place of a table, which may never end", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.append({ event: execEvent(), decision: { decision: "allow" } });
    }
    for (const [view, table] of ENDLESS) {
      const copy = await copyLedger(path);
      await runSql(copy, endless(view, table));
      for (const read of [readEvents, readHeads]) {
        const { code, message } = await assertRejects(() => read(copy), SbxError);
        assertEquals([code, message.includes(`has a view ${view}`)], ["ledger.invalid", true]);
      }
      assertThrows(() => askLedger(copy, "SELECT count(*) FROM entries"), SbxError, `has a view ${view}`);
    }
  }));
