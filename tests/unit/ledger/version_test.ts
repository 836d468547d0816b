/** Ledgers of other schema versions: older ones are read and continued, newer ones refused. */
import type { SqlValue } from "../../../lib/ledger/database.ts";
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { blake3File } from "../../../lib/base/hash/mod.ts";
import { EVENT_FAMILIES } from "../../../lib/event/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import {
  collect,
  readApproval,
  readEvents,
  readFindingRows,
  readFindings,
  readWhy,
  sealAbandoned,
  verifyLedger,
} from "../../../lib/ledger/read/mod.ts";
import { openLedger } from "../../../lib/ledger/read/open.ts";
import { SCHEMA_VERSION, VIEW_FIELDS } from "../../../lib/ledger/schema.ts";
import { execEvent, runSql, select, SESSION, withLedgerPath, writeEvents } from "../../helper/ledger.ts";
import { fromRoot } from "../../helper/repo.ts";

/** Events of the fixture (fixtures/ledger/README.md), in order. */
const TYPES = [
  ...Array(6).fill("http.request"),
  "dns.query",
  "mcp.tool_call",
  "mcp.tool_list",
  "mcp.event",
  "model.call",
  "file.activity",
  "process.exec",
  "process.exec",
  "process.exit",
  "credential.substitution",
];

/** Values of `PRAGMA user_version` of the fixtures. */
const OLD_VERSIONS: Record<string, number> = { v1: 0, v2: 2, v6: 6 };

/** Runs a test with copies of the older ledgers, and their seals. */
async function withOldLedger(run: (path: string, version: number) => Promise<void>): Promise<void> {
  for (const [name, version] of Object.entries(OLD_VERSIONS)) {
    await withLedgerPath(async (path) => {
      for (const end of ["", ".seal"]) {
        await Deno.copyFile(fromRoot(`fixtures/ledger/${name}.db${end}`), path + end);
      }
      assertEquals(await versionOf(path), version);
      const columns = await select(path, "SELECT name FROM pragma_table_info('net_events')");
      assertEquals(columns.some(({ name }) => name === "path_class"), version >= 2);
      await run(path, version);
    });
  }
}

async function versionOf(path: string): Promise<number> {
  const [row] = await select(path, "PRAGMA user_version");
  return Number(row.user_version);
}

Deno.test("a new ledger has the current version", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 1);
    assertEquals(await versionOf(path), SCHEMA_VERSION);
  }));

Deno.test("an older ledger is listed, filtered, explained and verified, and stays as it is", () =>
  withOldLedger(async (path) => {
    const before = await blake3File(path);
    const { events } = await readEvents(path);
    assertEquals(events.map(({ common }) => common.event_type), TYPES);
    for (const family of EVENT_FAMILIES) {
      const listed = (await readEvents(path, { family })).events.map(({ common }) => common.event_type);
      assertEquals(listed, TYPES.filter((type) => type.startsWith(`${family}.`)));
    }
    const denied = (await readEvents(path, { denied: true })).events;
    assertEquals(denied.map(({ common, rule_id }) => [common.sequence, rule_id]), [
      [2, "no-teapot"],
      [5, "ask-post"],
      [6, "guard-smuggling"],
      [14, "no-rm"],
    ]);
    assertEquals(events[0].http?.response?.body.text, "hello");
    assertEquals((await readFindings(path)).map(({ rule_id }) => rule_id), ["fixture-dns", "no-rm"]);
    const rows = await readFindingRows(path, 0, 10);
    assertEquals(rows.map(({ event }) => event.common.sequence), [7, 14]);
    const { record } = await readWhy(path, events[4].common.event_id);
    assertEquals([record?.decision, record?.rule?.id], ["block", "ask-post"]);
    const ask = await readApproval<{ status: string }>(path, events[4].common.event_id);
    assertEquals(ask?.status, "denied");
    assertEquals(await verifyLedger(path), { ok: true, events: 16, sealed: true });
    assertEquals(await blake3File(path), before);
  }));

Deno.test("every column of the current views filters an older ledger", () =>
  withOldLedger(async (path) => {
    const client = await openLedger(path);
    try {
      for (const view of [...VIEW_FIELDS.keys(), "decisions"]) {
        const { rows } = await client.execute(`SELECT * FROM ${view}`);
        // The family of databases came after these ledgers.
        assertEquals(rows.length > 0, view !== "db_events" && view !== "sign_events", view);
        const { rows: described } = await client.execute(`SELECT name FROM pragma_table_info('${view}')`);
        const columns = described.map(({ name }) => String(name));
        assertEquals(Object.keys(VIEW_FIELDS.get(view) ?? {}).filter((name) => !columns.includes(name)), []);
        for (const column of columns) {
          for (const row of rows) {
            const { rows: found } = await client.execute({
              sql: `SELECT sequence FROM ${view} WHERE ${column} IS ?`,
              args: [row[column] as SqlValue],
            });
            assert(found.some(({ sequence }) => sequence === row.sequence), `${view}.${column}`);
          }
        }
      }
      const classes = await client.execute("SELECT DISTINCT path_class FROM net_events");
      assertEquals(classes.rows.map(({ path_class }) => path_class), ["api"]);
    } finally {
      client.close();
    }
  }));

Deno.test("an older ledger is migrated by its next writer, and continues", () =>
  withOldLedger(async (path) => {
    const { events: old } = await readEvents(path);
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      assertEquals(ledger.sequence, 16);
      const event = execEvent();
      ledger.append({ event });
      ledger.end({ event_id: event.common.event_id, duration_ms: 1 });
    }
    assertEquals(await versionOf(path), SCHEMA_VERSION);
    assertEquals((await readEvents(path)).events.slice(0, 16), old);
    assertEquals(await verifyLedger(path), { ok: true, events: 17, sealed: true });
    const classes = await select(path, "SELECT DISTINCT path_class FROM net_events");
    assertEquals(classes.map(({ path_class }) => path_class), ["api"]);
    await writeEvents(path, 1);
    assertEquals(await verifyLedger(path), { ok: true, events: 18, sealed: true });
  }));

Deno.test("a migrated ledger binds what it had, and every decision from then on", () =>
  withOldLedger(async (path) => {
    const cases: [string, RegExp][] = [
      ["DELETE FROM findings WHERE rowid = 1", /of findings is missing/],
      ["DELETE FROM approvals", /of approvals is missing/],
      [
        "UPDATE entries SET decision = NULL, rule_id = NULL, record = NULL, record_hash = NULL WHERE sequence = 17",
        /prev_hash/,
      ],
    ];
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const decision = { decision: "block", rule: { id: "r" } };
    for (const _ of [17, 18]) ledger.append({ event: execEvent(), decision });
    await ledger.close();
    await Deno.remove(`${path}.seal`);
    assertEquals(await verifyLedger(path), { ok: true, events: 18, sealed: false });
    for (const [at, [statement, reason]] of cases.entries()) {
      const copy = `${path}.${at}`;
      await Deno.copyFile(path, copy);
      await runSql(copy, statement);
      assertMatch((await verifyLedger(copy)).first_bad!.reason, reason);
    }
  }));

Deno.test("an older ledger without a seal is sealed", () =>
  withOldLedger(async (path) => {
    await Deno.remove(`${path}.seal`);
    assertEquals(await sealAbandoned(path, SESSION), true);
    assertEquals(await verifyLedger(path), { ok: true, events: 16, sealed: true });
  }));

Deno.test("an older ledger that is locked stays as it is", () =>
  withOldLedger(async (path, version) => {
    const client = await openLedger(path);
    await client.execute("BEGIN IMMEDIATE");
    const error = await assertRejects(() => Ledger.open(path, { sessionId: SESSION }), SbxError);
    assertEquals(error.code, "ledger.unavailable");
    await client.execute("ROLLBACK");
    client.close();
    assertEquals(await versionOf(path), version);
    assertEquals(await verifyLedger(path), { ok: true, events: 16, sealed: true });
  }));

Deno.test("a newer ledger is refused by readers and writers, with both versions", () =>
  withLedgerPath(async (path) => {
    const [event] = await writeEvents(path, 1);
    const newer = SCHEMA_VERSION + 1;
    // With a table that this version does not know.
    await runSql(path, `CREATE TABLE later (id TEXT PRIMARY KEY); PRAGMA user_version = ${newer}`);
    const { hash } = await blake3File(path);
    const { event_id } = event.common;
    const attempts = [
      () => Ledger.open(path, { sessionId: SESSION }),
      () => readEvents(path),
      () => readWhy(path, event_id),
      () => readFindings(path),
      () => readFindingRows(path, 0, 1),
      () => readApproval(path, event_id),
      () => verifyLedger(path),
      () => collect({ path, sessionId: SESSION, url: `file:${path}.server` }),
    ];
    for (const attempt of attempts) {
      const error = await assertRejects(attempt as () => Promise<unknown>, SbxError);
      assertEquals(error.code, "ledger.version.conflict");
      assertStringIncludes(error.message, `version ${newer}`);
      assertStringIncludes(error.message, `up to ${SCHEMA_VERSION}`);
    }
    assertEquals((await blake3File(path)).hash, hash);
    await Deno.stat(`${path}.seal`);
  }));
