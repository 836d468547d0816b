/** New findings of hunts go to a sink, each once, also after the sink was away. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { ir, rule } from "../helper/detection.ts";
import { FindingSinks } from "../../lib/ledger/sink/mod.ts";
import { retroHunt, sendFindings, writeTables } from "../../lib/fleet/table/mod.ts";
import { record, SESSION_A, TestFleet, webEvent } from "../helper/fleet.ts";

Deno.test("a hunt sends what it finds once, with its machine, and a sink that was away gets it later", async () => {
  await using fleet = await TestFleet.start();
  const shipper = fleet.shipper(await fleet.machine("laptop-7"));
  await record(`${fleet.dir}/a.db`, SESSION_A, [{ event: webEvent(SESSION_A, "evil.example.net") }]);
  await shipper.ship(SESSION_A, `${fleet.dir}/a.db`);
  await writeTables(fleet.store);
  const bodies: string[] = [];
  let isAway = true;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const text = await request.text();
    if (isAway) return new Response(null, { status: 503 });
    bodies.push(text);
    return new Response();
  });
  const irs = [ir([rule("evil", { "http.request.host": "evil.example.net" })])];
  const run = async (graceMs: number) => {
    const sinks = await FindingSinks.open({
      dir: `${fleet.store}/sinks`,
      http: { endpoint: `http://127.0.0.1:${server.addr.port}/` },
      backoff: { firstMs: 10, maxMs: 50 },
    });
    const { fresh } = await retroHunt(fleet.store, irs, {
      engine: "duckdb",
      since: 0,
      onFresh: (over, fresh) => sendFindings(fleet.store, over, irs, fresh, sinks),
    });
    await sinks.close(graceMs);
    return fresh.length;
  };
  assertEquals([await run(0), bodies], [1, []]);
  isAway = false;
  // Found before, and in the queue of the store.
  assertEquals(await run(60_000), 0);
  assertEquals(bodies.length, 1);
  for (const text of ["evil.example.net", "laptop-7", SESSION_A]) assertStringIncludes(bodies[0], text);
  assertEquals(await run(60_000), 0);
  assertEquals(bodies.length, 1);
  await server.shutdown();
});
