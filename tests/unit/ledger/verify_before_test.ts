/** Rows numbered below the first one, which no chain begins with, and tables replaced by views. */
import { Buffer } from "node:buffer";
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
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

/** Changes bytes of a file to others of the same length, as no SQL does. */
async function patchBytes(path: string, from: string, to: string): Promise<void> {
  const bytes = Buffer.from(await Deno.readFile(path));
  let changes = 0;
  for (let at = 0; (at = bytes.indexOf(from, at)) >= 0; at += from.length) changes += bytes.write(to, at);
  assert(changes > 0, `the file has no ${from}`);
  await Deno.writeFile(path, bytes);
}

/**
 * Schemas that SQLite takes, and no ledger has: rows are computed, or checked by a pattern that takes years.
 */
const SLOW = "printf('%.*c', 9999, 'a') LIKE '%a%a%a%a%a%a%a%a%b'";
const ALIEN_SCHEMAS: [what: string, statement: string, patch: [from: string, to: string] | undefined][] = [
  ["a view whose type is in capitals", endless("entries", "entries"), ["viewentries", "VIEWentries"]],
  [
    "a trigger whose type is in capitals",
    "CREATE TRIGGER hide AFTER INSERT ON findings BEGIN DELETE FROM findings; END",
    ["triggerhide", "TRIGGERhide"],
  ],
  [
    "a virtual table in other words",
    "DROP TABLE journal; CREATE VIRTUAL TABLE journal USING fts5(number, kind, id, hash, prev_hash, link)",
    ["CREATE VIRTUAL", "create\tvirtual"],
  ],
  [
    "a column that is computed",
    `DROP TABLE ledger_info;
     CREATE TABLE ledger_info (id INTEGER PRIMARY KEY, session_id TEXT GENERATED ALWAYS AS (iif(${SLOW}, 1, 2)))`,
    undefined,
  ],
  [
    "a check that takes years",
    `ALTER TABLE body_blobs RENAME TO own; CREATE TABLE body_blobs
       (hash TEXT PRIMARY KEY, content_type TEXT, bytes BLOB NOT NULL, CHECK (bytes IS NULL OR ${SLOW} OR 1))`,
    undefined,
  ],
  [
    "an index that is computed",
    `CREATE INDEX slow ON entries (event_id) WHERE length(hash) < 9 AND ${SLOW}`,
    undefined,
  ],
  ["a table without rows of its own", "CREATE TABLE more (id PRIMARY KEY) WITHOUT ROWID", undefined],
  [
    "columns that compare without case",
    "DROP INDEX entries_by_id; CREATE INDEX entries_by_id ON entries (event_id COLLATE NOCASE)",
    undefined,
  ],
];

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

Deno.test("no reader begins with a schema that is not the one of a ledger, however it is written", (t) =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.append({ event: execEvent(), decision: { decision: "allow" } });
    }
    for (const [what, statement, patch] of ALIEN_SCHEMAS) {
      await t.step(what, async () => {
        const copy = await copyLedger(path);
        await runSql(copy, statement);
        if (patch) await patchBytes(copy, ...patch);
        const { code, message } = await assertRejects(() => readEvents(copy), SbxError);
        assertEquals(code, "ledger.invalid");
        assertMatch(message, /which no ledger has|is not as in a ledger/);
        assertThrows(() => askLedger(copy, "SELECT 1"), SbxError, "no");
        const { ok, first_bad } = await verifyLedger(copy);
        assertEquals([ok, first_bad?.sequence], [false, undefined]);
      });
    }
  }));
