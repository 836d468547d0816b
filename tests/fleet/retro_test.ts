/** Retro-hunts: a new pack is run over the past, a finding is told once, and what arrives late is found. */
import { assertEquals } from "@std/assert";
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
  await add(SESSION_B);
  const late = await retroHunt(fleet.store, packs, { engine: "duckdb", since: 0 });
  assertEquals(late.fresh.map(({ session_id }) => session_id), [SESSION_B]);
  const other = await retroHunt(fleet.store, changed, { engine: "duckdb", since: 0 });
  assertEquals([other.fresh.map(({ rule_id }) => rule_id), other.known, other.packs[0].isNew], [
    ["any", "any"],
    2,
    true,
  ]);
});
