/**
 * The same packs through the TypeScript matcher, chdb over ledgers, chdb over Parquet, DuckDB over
 * Parquet and tables of ClickHouse over HTTP: the same matches, for the corpus of Sigma rules and for
 * random packs over random events.
 */
import { assert, assertEquals } from "@std/assert";
import { compileRules } from "../../lib/detection/rule/compile.ts";
import { compilePack } from "../../lib/detection/compile/mod.ts";
import { type Compiled, type DetectionIr, Matcher, type SigmaPlan } from "../../lib/detection/mod.ts";
import { checkPack, readPack } from "../../lib/detection/pack/mod.ts";
import { ClickHouseClient, parseClickHouse } from "../../lib/fleet/clickhouse/mod.ts";
import {
  ClickHouseLoader,
  eventsOf,
  type FleetRecords,
  hunt,
  openRecords,
  sessionsSince,
  TABLES,
  writeTables,
} from "../../lib/fleet/table/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { type EventPage, type LedgerEvent, readEvents } from "../../lib/ledger/read/mod.ts";
import { ClickHouseProcess } from "../helper/clickhouse_server.ts";
import { SESSION_A, SESSION_B, TestFleet } from "../helper/fleet.ts";
import { randomEvent, randomPack } from "../helper/fleet_events.ts";
import { Random } from "../helper/random.ts";
import { fromRoot } from "../helper/repo.ts";
import type { Parsed } from "../helper/json.ts";

const SEED = Number(Deno.env.get("SEED") ?? 1);
const EVENTS = 1500;
const GRANTS = [{ family: "http" }, { family: "model" }, { family: "mcp" }];

/** The accepted rules of the corpus, as one pack. */
async function corpusPack(): Promise<DetectionIr> {
  const { pack } = await readPack(fromRoot("fixtures/detection/corpus.mapping.yaml"));
  const names = [...Deno.readDirSync(fromRoot("fixtures/detection/corpus"))].map(({ name }) => name);
  const { document: _, folder, ...envelope } = pack!;
  const sources = names.filter((name) => name.startsWith("accepted-")).sort().map((name) => ({
    id: name.replace(".yml", ""),
    type: "sigma",
    format: "yaml",
    path: `corpus/${name}`,
  }));
  const value = { ...envelope, sources };
  const { ir } = await compilePack(
    checkPack({ value, placeOf: () => ({}), textPlaceOf: () => ({}) }, folder).pack!,
  );
  return ir!;
}

/** Sigma rules that match random events, one of them a correlation. */
function sigmaRules(): SigmaPlan {
  const text = `title: Request
logsource: {category: proxy}
detection: {sel: {cs-host|contains: e}, filter: {cs-method: GET}, condition: sel and not filter}
---
title: Answered
name: answered
logsource: {category: proxy}
detection: {sel: {sc-status|gte: 200}, condition: sel}
---
title: Busy
correlation: {type: event_count, rules: [answered], timespan: 1h, condition: {gte: 3}, generate: true}
`;
  const { plan, outcomes } = compileRules([{ path: "fleet.yml", text }], { pack_id: "sigma.fleet" });
  assertEquals(outcomes.map(({ status }) => status), ["compiled", "compiled", "compiled"]);
  return plan;
}

/** Writes random events, some of which the corpus matches. */
async function writeLedger(
  path: string,
  session: string,
  random: Random,
  corpus: DetectionIr,
): Promise<void> {
  await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  await using ledger = await Ledger.open(path, { sessionId: session });
  for (let at = 0; at < EVENTS; at++) {
    const { event, response } = randomEvent(session, random);
    const family = event.common.event_type.split(".")[0];
    const rule = random.pick(corpus.rules);
    if (rule.event_family === family && random.below(2)) {
      for (const { field_path, values } of rule.matchers) {
        const parts = field_path.split(".");
        if (parts[0] === "common" && ["session_id", "event_type", "sequence"].includes(parts[1])) continue;
        let holder: Parsed = event;
        for (const part of parts.slice(0, -1)) holder = holder[part] ??= {};
        holder[parts.at(-1)!] = random.pick(values);
      }
    }
    const decision = random.below(2) ? { decision: "allow", rule: { id: "r" } } : undefined;
    ledger.append({ event, ...(decision && { decision }) });
    const { event_id } = event.common;
    if (response !== undefined || random.below(3) === 0) {
      ledger.end({ event_id, ...(response !== undefined && { response }) });
    }
    // A second end does not count.
    if (random.below(20) === 0) {
      ledger.end({ event_id, response: { status: 200, rcode: "a", is_error: true } });
    }
  }
}

async function matchInTypeScript(paths: string[], irs: Compiled[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    const matcher = new Matcher(irs);
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const page = await readEvents(path, { cursor, limit: 1000 });
      for (const event of page.events) {
        for (const { rule } of matcher.hits(event)) found.push(`${event.common.event_id} ${rule.id}`);
      }
      cursor = page.next_cursor;
    }
  }
  return found.sort();
}

/** Loads a store into a server, which has the tables then. */
async function loaded(store: string, server: ClickHouseProcess): Promise<FleetRecords> {
  const loader = new ClickHouseLoader(
    store,
    new ClickHouseClient(parseClickHouse(server.url), server.authorize),
  );
  await loader.prepare();
  assert((await loader.round()).segments > 0);
  assertEquals((await loader.round()).segments, 0);
  return await openRecords(server.url, server.authorize);
}

/** All rows of all tables. */
async function tablesOf({ engine, table }: FleetRecords) {
  const rows: Record<string, unknown[]> = {};
  for (const name of ["events", "outcomes", "journal"] as const) {
    const columns = TABLES[name].map((column) => column.name).join(", ");
    const number = name === "events" ? "sequence" : "number";
    const found = await engine.rows(
      `SELECT ${columns} FROM ${table!(name)} AS t ORDER BY machine_id, session_id, ${number}`,
    );
    // Key columns of ClickHouse are never NULL.
    rows[name] = found.map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value ?? ""]))
    );
  }
  return rows;
}

Deno.test("every way to hunt finds the same", async () => {
  await using fleet = await TestFleet.start();
  const random = new Random(SEED);
  const corpus = await corpusPack();
  assert(corpus.rules.length >= 15);
  const key = await fleet.machine();
  const shipper = fleet.shipper(key, { grants: GRANTS });
  const paths = [SESSION_A, SESSION_B].map((id) => `${fleet.dir}/ledgers/${id}/session.db`);
  for (const [at, session] of [SESSION_A, SESSION_B].entries()) {
    await writeLedger(paths[at], session, random, corpus);
    await shipper.ship(session, paths[at]);
    await writeTables(fleet.store);
  }
  assertEquals((await writeTables(fleet.store)).segments, 0, "each segment is in one part");
  await using server = await ClickHouseProcess.start(["hunter", "pa'ss"]);
  await using over = await loaded(fleet.store, server);
  assertEquals(await tablesOf(over), await tablesOf(await openRecords(`duckdb://${fleet.store}`)));
  const packs = [corpus, sigmaRules(), ...Array.from({ length: 10 }, () => randomPack(60, random))];
  let matches = 0;
  for (const [at, pack] of packs.entries()) {
    const expected = await matchInTypeScript(paths, [pack]);
    matches += expected.length;
    if (at === 1) assertEquals(new Set(expected.map((line) => line.split(" ")[1])).size, 3);
    for (
      const over of [
        `duckdb://${fleet.store}`,
        `chdb://${fleet.store}`,
        `chdb://${fleet.dir}/ledgers`,
        server.url,
      ]
    ) {
      await using opened = await openRecords(over, over === server.url ? server.authorize : undefined);
      const rows = await hunt(opened, [pack]);
      const found = rows.map(({ event_id, rule_id }) => `${event_id} ${rule_id}`).sort();
      assertEquals(found, expected, `pack ${at} over ${over}, SEED=${SEED}`);
    }
  }
  assert(matches > 1000, `only ${matches} matches`);
  // Rules are tried on the same events as in the ledgers.
  for (const records of [`duckdb://${fleet.store}`, `chdb://${fleet.store}`, server.url]) {
    await using over = await openRecords(records, records === server.url ? server.authorize : undefined);
    const tables = { engine: over.engine, table: over.table! };
    const sessions = await sessionsSince(tables, 0);
    assertEquals(sessions.map(({ session_id }) => session_id).sort(), [SESSION_A, SESSION_B]);
    for (const session of sessions) {
      const path = paths[session.session_id === SESSION_A ? 0 : 1];
      const expected: LedgerEvent[] = [];
      for (let cursor: string | undefined = "0"; cursor !== undefined;) {
        const page: EventPage = await readEvents(path, { cursor, limit: 1000 });
        expected.push(...page.events);
        cursor = page.next_cursor;
      }
      assertEquals(await Array.fromAsync(eventsOf(tables, session, 0)), expected);
    }
  }
});
