/** Lists and sums of rare families, which an index finds among a million events of others. */
import { assertEquals, assertMatch } from "@std/assert";
import { EVENT_FAMILIES, newEventId } from "../../../lib/event/mod.ts";
import { EVENT_TYPES } from "../../../lib/event/schema.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readEvents } from "../../../lib/ledger/read/mod.ts";
import { selectionOf } from "../../../lib/ledger/read/events.ts";
import { openLedger } from "../../../lib/ledger/read/open.ts";
import { selectFamily } from "../../../lib/ledger/schema.ts";
import { eventCommon } from "../../helper/event.ts";
import { runSql, SESSION, withLedgerPath } from "../../helper/ledger.ts";

/** The events are those of the index, each read by its number. */
const INDEX =
  /^SEARCH entries USING INTEGER PRIMARY KEY \(rowid=\?\)[^]*(SEARCH|SCAN) entries USING COVERING INDEX entries_rare/;
const FREQUENT = ["http", "dns", "file", "process"];

/** Writes an event of each type, and some of types that this version does not know. */
async function writeTypes(path: string): Promise<void> {
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  const unknown = ["model.later", "modelx.call", "model", "http.later", "dns/query"] as never[];
  for (const type of [...EVENT_TYPES, ...unknown]) {
    ledger.append({ event: { schema_version: 1, common: eventCommon(type, { event_id: newEventId() }) } });
  }
}

Deno.test("events of each family are found, of types that are not known too", () =>
  withLedgerPath(async (path) => {
    await writeTypes(path);
    const found = async (family: (typeof EVENT_FAMILIES)[number]) =>
      (await readEvents(path, { family })).events.map(({ common }): string => common.event_type);
    for (const family of EVENT_FAMILIES) {
      const known: string[] = EVENT_TYPES.filter((type) => type.startsWith(`${family}.`));
      const later = ["model", "http"].includes(family) ? [`${family}.later`] : [];
      assertEquals(await found(family), [...known, ...later], family);
    }
    // A record of an older sbx has no such index.
    const before = await found("model");
    await runSql(path, "DROP INDEX entries_rare");
    assertEquals(await found("model"), before);
  }));

Deno.test("a list and a sum of a rare family read no other row", () =>
  withLedgerPath(async (path) => {
    await writeTypes(path);
    const client = await openLedger(path);
    try {
      const planOf = async (sql: string) => {
        const { rows } = await client.execute(`EXPLAIN QUERY PLAN ${sql}`);
        return rows.map(({ detail }) => detail).join("\n");
      };
      for (const family of EVENT_FAMILIES.filter((each) => !FREQUENT.includes(each))) {
        const list = selectionOf({ family }).from.replaceAll(/\?[12]/g, "9");
        assertMatch(await planOf(`SELECT event ${list} ORDER BY entries.sequence LIMIT 9`), INDEX, family);
        assertMatch(await planOf(selectFamily(family)), INDEX, family);
      }
    } finally {
      client.close();
    }
  }));

Deno.test("pages of a rare family have every event, in both orders, however many others lie between", () =>
  withLedgerPath(async (path) => {
    await writeTypes(path);
    // More of the family's own than one statement passes over, among twice as many others.
    await runSql(
      path,
      `WITH RECURSIVE n(at) AS (SELECT 1000 UNION ALL SELECT at + 1 FROM n WHERE at < 10000)
       INSERT INTO entries (sequence, event_id, event_type, event, prev_hash, hash)
       SELECT at, id, type, json_object('common', json_object('event_type', type, 'event_id', id)), '', ''
       FROM (SELECT at, printf('e%05d', at) AS id, iif(at % 3 = 0, 'mcp.tool_call', 'http.request') AS type FROM n)`,
    );
    for (const order of ["newest", "oldest"] as const) {
      const grep = order === "newest" ? "e01002" : "e09999";
      const { events, next_cursor } = await readEvents(path, { family: "mcp", order, grep });
      assertEquals([events.map(({ common }) => common.event_id), next_cursor], [
        [grep],
        undefined,
      ]);
      const found = new Set<string>();
      let cursor: string | undefined;
      do {
        const page = await readEvents(path, { family: "mcp", order, cursor, limit: 1000 });
        for (const { common } of page.events) found.add(common.event_id);
        cursor = page.next_cursor;
      } while (cursor !== undefined);
      assertEquals(found.size, 3000 + EVENT_TYPES.filter((type) => type.startsWith("mcp.")).length, order);
    }
  }));
