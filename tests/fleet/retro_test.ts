/** Retro-hunts: a new pack is run over the past, a finding is told once, and what arrives late is found. */
import { assert, assertEquals } from "@std/assert";
import { retroHunt, writeTables } from "../../lib/fleet/table/mod.ts";
import { ir, rule } from "../helper/detection.ts";
import { record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../helper/fleet.ts";

Deno.test("what a pack finds in the past is told once, with the time of its event", async () => {
  await using fleet = await TestFleet.start();
  const shipper = fleet.shipper(await fleet.machine());
  const add = async (session: string) => {
    await record(`${fleet.dir}/${session}.db`, session, [{ event: webEvent(session, "evil.example.net") }]);
    await shipper.ship(session, `${fleet.dir}/${session}.db`);
    await writeTables(fleet.store);
  };
  const packs = [
    ir([rule("evil", { "http.request.host": "evil.example.net", "http.response.status": 200 })]),
  ];
  const changed = [ir([...packs[0].rules, rule("any", { "http.request.method": "GET" })])];
  await add(SESSION_A);
  for (const engine of ["duckdb", "chdb"] as const) {
    const later = await retroHunt(fleet.store, packs, { engine, since: 1_700_000_000_001 });
    assertEquals(later.fresh.length, 0, "its event was before");
  }
  const first = await retroHunt(fleet.store, packs, { engine: "duckdb", since: 0 });
  assertEquals(first.fresh.map(({ retro, event_at, rule_id }) => [retro, event_at, rule_id]), [
    [true, "2023-11-14T22:13:20.000Z", "evil"],
  ]);
  const again = await retroHunt(fleet.store, packs, { engine: "chdb", since: 0 });
  assertEquals([again.fresh.length, again.known, again.packs[0].isNew], [0, 1, false]);
  const soon = await retroHunt(fleet.store, packs, { engine: "duckdb", since: 0, due: 60_000 });
  assertEquals([soon.packs[0].state, soon.events, soon.complete], ["not_due", 0, true]);
  await add(SESSION_B);
  const late = await retroHunt(fleet.store, packs, { engine: "duckdb", since: 0 });
  assertEquals(late.fresh.map(({ session_id }) => session_id), [SESSION_B]);
  const other = await retroHunt(fleet.store, changed, { engine: "duckdb", since: 0, due: 60_000 });
  assertEquals([other.fresh.map(({ rule_id }) => rule_id), other.known, other.packs[0].isNew], [
    ["any", "any"],
    2,
    true,
  ]);
});

Deno.test("a hunt that its bounds end goes on with the next, and finds everything once", async () => {
  await using fleet = await TestFleet.start();
  const shipper = fleet.shipper(await fleet.machine());
  const DAY = 86_400_000;
  const event = (day: number) => {
    const made = webEvent(SESSION_A, "evil.example.net");
    made.common.timestamp_unix_ms = 1_700_000_000_000 + day * DAY;
    return { event: made };
  };
  const path = `${fleet.dir}/${SESSION_A}.db`;
  await record(path, SESSION_A, Array.from({ length: 6 }, (_, day) => event(day)));
  await shipper.ship(SESSION_A, path);
  await writeTables(fleet.store);
  const packs = ["one", "two"].map((pack_id) => ({
    ...ir([rule("evil", { "http.request.host": "evil.example.net" })]),
    pack_id,
  }));
  const found: string[] = [];
  const bounds = { engine: "duckdb", since: 0, maxEvents: 4 } as const;
  const reports = [];
  for (let run = 0; run < 10; run++) {
    const report = await retroHunt(fleet.store, packs, bounds);
    assert(report.events <= 4, `${report.events} events`);
    found.push(...report.fresh.map(({ pack_id, event_at }) => `${pack_id} ${event_at}`));
    reports.push(report);
    if (report.complete) break;
  }
  assertEquals([new Set(found).size, found.length], [12, 12]);
  assertEquals(reports[0].packs.map(({ state }) => state), ["partial", "partial"]);
  assertEquals(reports[0].fresh[0].event_at, "2023-11-19T22:13:20.000Z", "the latest day comes first");
  assertEquals(reports[0].fresh.every(({ retro }) => retro), true);
  const two = await Promise.allSettled([1, 2].map(() => retroHunt(fleet.store, packs, bounds)));
  const refused = two.flatMap((each) => each.status === "rejected" ? [String(each.reason)] : []);
  assertEquals(refused.length, 1);
  assert(refused[0].includes("another program hunts"), refused[0]);
});
