import { fileURLToPath } from "node:url";
import { Database } from "../../../lib/ledger/database.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { collect, collectHead, startCollecting } from "../../../lib/ledger/read/mod.ts";
import { eventCommon } from "../../helper/event.ts";
import { requestEvent } from "../../helper/ledger.ts";

function event(session_id: string): Event {
  return { ...requestEvent("dns.query"), common: eventCommon("dns.query", { session_id }) };
}

async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function countCollected(url: string): Promise<[unknown, unknown][]> {
  const client = new Database(fileURLToPath(url));
  const { rows } = await client.execute(
    "SELECT session_id, count(*) AS n, max(sequence) AS last FROM collected_events GROUP BY 1 ORDER BY 1",
  );
  client.close();
  return rows.map(({ session_id, n, last }) => {
    assertEquals(n, last, "no gap");
    return [session_id, n];
  });
}

Deno.test("events of many sessions reach the collecting server once each", () =>
  withFolder(async (folder) => {
    const url = `file:${folder}/server.db`;
    for (const [sessionId, count] of [["a", 1203], ["b", 2]] as const) {
      const path = `${folder}/${sessionId}.db`;
      await using ledger = await Ledger.open(path, { sessionId });
      for (let at = 0; at < count; at++) ledger.append({ event: event(sessionId) });
      await ledger.flush();
      assertEquals(await collect({ path, sessionId, url }), count);
      assertEquals(await collect({ path, sessionId, url }), 0);
      ledger.append({ event: event(sessionId), decision: { decision: "block", rule: { id: "r" } } });
      await ledger.flush();
      assertEquals(await collect({ path, sessionId, url }), 1);
    }
    assertEquals(await countCollected(url), [["a", 1204], ["b", 3]]);
  }));

Deno.test("events are kept while the server is absent, and sent later", () =>
  withFolder(async (folder) => {
    const path = `${folder}/a.db`;
    const url = `file:${folder}/away/server.db`;
    await using ledger = await Ledger.open(path, { sessionId: "a" });
    for (let at = 0; at < 10; at++) ledger.append({ event: event("a") });
    await ledger.flush();
    const error = await assertRejects(() => collect({ path, sessionId: "a", url }), SbxError);
    assertEquals(error.code, "ledger.collector.unavailable");
    await Deno.mkdir(`${folder}/away`);
    assertEquals(await collect({ path, sessionId: "a", url }), 10);
  }));

Deno.test("collecting continues after failures until it is stopped", () =>
  withFolder(async (folder) => {
    const path = `${folder}/a.db`;
    const url = `file:${folder}/away/server.db`;
    await using ledger = await Ledger.open(path, { sessionId: "a" });
    ledger.append({ event: event("a") });
    await ledger.flush();
    const failed = Promise.withResolvers<string>();
    const collecting = startCollecting({ path, sessionId: "a", url }, ({ code }) => failed.resolve(code));
    assertEquals(await failed.promise, "ledger.collector.unavailable");
    await collecting.stop();
  }));

Deno.test("a signed head is kept on the collecting server with the server's time", () =>
  withFolder(async (folder) => {
    const url = `file:${folder}/server.db`;
    for (const envelope of ["one", "two"]) {
      await collectHead({ path: `${folder}/a.db`, sessionId: "a", url }, envelope);
    }
    const client = new Database(fileURLToPath(url));
    const { rows } = await client.execute("SELECT * FROM collected_heads ORDER BY number");
    client.close();
    assertEquals(rows.map(({ session_id, envelope }) => [session_id, envelope]), [["a", "one"], [
      "a",
      "two",
    ]]);
    for (const { received_at } of rows) assertEquals(Number.isNaN(Date.parse(String(received_at))), false);
  }));
