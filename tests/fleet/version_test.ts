/** Parts that an earlier or a later sbx wrote, with fewer columns or more, beside those of this one. */
import { assertEquals } from "@std/assert";
import { hunt, openRecords, writeTables } from "../../lib/fleet/table/mod.ts";
import { ir, rule } from "../helper/detection.ts";
import { record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../helper/fleet.ts";

Deno.test("parts of other versions are hunted through together", async () => {
  await using fleet = await TestFleet.start();
  const shipper = fleet.shipper(await fleet.machine());
  const parts = `${fleet.store}/parts`;
  for (const session of [SESSION_A, SESSION_B]) {
    await record(`${fleet.dir}/${session}.db`, session, [{ event: webEvent(session, "evil.example.net") }]);
    await shipper.ship(session, `${fleet.dir}/${session}.db`);
    await writeTables(fleet.store);
    if (session !== SESSION_A) continue;
    const [{ name }] = (await Array.fromAsync(Deno.readDir(parts))).filter(({ isDirectory }) => isDirectory);
    const file = `${parts}/${name}/events.parquet`;
    await using over = await openRecords(`duckdb://${fleet.store}`);
    await over.engine.rows(
      `COPY (SELECT * EXCLUDE (http_request_git_service, mcp_request_method), 1 AS of_tomorrow FROM read_parquet('${file}'))
        TO '${file}.new' (FORMAT parquet)`,
    );
    await Deno.rename(`${file}.new`, file);
  }
  const packs = [ir([
    rule("evil", { "http.request.host": "evil.example.net" }),
    rule("status", { "http.response.status": 200 }),
    rule("push", { "http.request.git.service": "git-receive-pack" }),
  ])];
  for (const kind of ["duckdb", "chdb"]) {
    await using over = await openRecords(`${kind}://${fleet.store}`);
    const found = (await hunt(over, packs)).map(({ session_id, rule_id }) => `${rule_id} ${session_id}`);
    assertEquals(found, [SESSION_A, SESSION_B].flatMap((id) => [`evil ${id}`, `status ${id}`]), kind);
  }
});
