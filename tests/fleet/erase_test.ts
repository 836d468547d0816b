/**
 * Erasure in every store: segments, Parquet and the tables of a ClickHouse server, and the rows that stay.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { ClickHouseClient, parseClickHouse } from "../../lib/fleet/clickhouse/mod.ts";
import { FolderTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { ClickHouseLoader, openRecords, writeTables } from "../../lib/fleet/table/mod.ts";
import { checkFleet } from "../../lib/fleet/receive/mod.ts";
import { ClickHouseProcess } from "../helper/clickhouse_server.ts";
import { record, SESSION_A, SESSION_B } from "../helper/fleet.ts";
import { enrolled, entries } from "../helper/pulling.ts";
import { fromRoot } from "../helper/repo.ts";

async function admin(args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const output = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", fromRoot("main.ts"), "admin", ...args],
  }).output();
  const [stdout, stderr] = [output.stdout, output.stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code: output.code, stdout, stderr };
}

async function rowsIn(over: string): Promise<unknown[]> {
  await using records = await openRecords(over);
  return await records.engine.rows(
    `SELECT session_id, count(*) AS events FROM ${
      records.table!("events")
    } AS e GROUP BY session_id ORDER BY session_id`,
  );
}

Deno.test("an erased session is in no table, others are, and nothing brings it back", async () => {
  const dir = await Deno.makeTempDir();
  const store = `${dir}/store`;
  await using server = await ClickHouseProcess.start();
  const key = await enrolled(store, "laptop-1");
  const shipper = new Shipper({ dir: `${dir}/cursors`, key, target: new FolderTarget(store) });
  for (const session of [SESSION_A, SESSION_B]) {
    const path = `${dir}/${session}.db`;
    await record(path, session, entries(session, 20));
    await shipper.ship(session, path);
  }
  const loader = new ClickHouseLoader(store, new ClickHouseClient(parseClickHouse(server.url)));
  await loader.prepare();
  await loader.round();
  await writeTables(store);
  const [a, b] = [SESSION_A, SESSION_B].map((session_id) => ({ session_id, events: 20 }));
  for (const over of [server.url, `duckdb://${store}`]) assertEquals(await rowsIn(over), [a, b], over);

  const { code, stdout, stderr } = await admin(
    ["fleet", "erase", store, "--session", SESSION_A, "--clickhouse", server.url],
  );
  assertEquals(code, 0, stderr);
  assertStringIncludes(stdout, `${SESSION_A}  40 rows`);
  assertEquals(await rowsIn(server.url), [b]);
  // The part had both; the tables write the rest again, and a loader that begins anew inserts nothing.
  await writeTables(store);
  assertEquals(await rowsIn(`duckdb://${store}`), [b]);
  await loader.round();
  await new ClickHouseLoader(store, new ClickHouseClient(parseClickHouse(server.url))).round();
  assertEquals(await rowsIn(server.url), [b]);
  const check = await checkFleet(store);
  assertEquals([check.events, check.problems], [40, []]);
  await Deno.remove(dir, { recursive: true });
});
