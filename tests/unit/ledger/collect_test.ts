import { assertEquals, assertRejects } from "@std/assert";
import { createClient } from "@libsql/client/sqlite3";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Event, newEventId } from "../../../lib/event/mod.ts";
import { collect, startCollecting } from "../../../lib/ledger/collect.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";

function event(session_id: string): Event {
  return {
    schema_version: 1,
    common: {
      event_id: newEventId(),
      event_type: "dns.query",
      session_id,
      vm_id: "vm",
      profile_id: "code",
      profile_revision: "1.0.0",
      timestamp_unix_ms: 1,
      sequence: 0,
      source_engine: "network",
      enforceability: "inline_blockable",
      actor: "vm",
      labels: {},
    },
    dns: { request: { qname: "example.com", qtype: "A", transport: "udp" } },
  };
}

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function collected(url: string): Promise<[unknown, unknown][]> {
  const client = createClient({ url });
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
  inFolder(async (folder) => {
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
    assertEquals(await collected(url), [["a", 1204], ["b", 3]]);
  }));

Deno.test("while the server is away events are kept, and they are sent when it is back", () =>
  inFolder(async (folder) => {
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

Deno.test("collecting goes on after failures and stops when it is told to", () =>
  inFolder(async (folder) => {
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
