/**
 * Events a second that the ledger takes for good, beside bare multi-row INSERTs of the same rows in the same run
 * (issue 4). Prints one JSON object.
 */
import { createClient, type InValue } from "@libsql/client/sqlite3";
import { join } from "node:path";
import { setImmediate } from "node:timers";
import { type Event, newEventId } from "../../lib/event/mod.ts";
import { Ledger, verifyLedger } from "../../lib/ledger/mod.ts";
import { BATCH_ROWS, insertRows, PLAIN_COLUMNS, PRAGMAS, SCHEMA } from "../../lib/ledger/schema.ts";

const EVENTS = 100_000;
const ROUNDS = 3;

function event(at: number): Event {
  const path = `/workspace/src/module-${at}/file.ts`;
  return {
    schema_version: 1,
    common: {
      event_id: newEventId(),
      event_type: "file.activity",
      session_id: "0b6a3f86-7ad0-4d92-9b4e-3a4f7c1d0a55",
      vm_id: "5e0c8a3a-41f5-4b2e-9f0a-9c1d7b7f3a10",
      profile_id: "code",
      profile_revision: "1.0.0",
      timestamp_unix_ms: 1_700_000_000_000 + at,
      sequence: 0,
      source_engine: "file",
      enforceability: "observe_only",
      actor: "vm",
      labels: {},
    },
    file: {
      activity: {
        operation: "write",
        path,
        path_class: "workspace",
        name: "file.ts",
        ext: "ts",
        byte_count: at,
      },
    },
  };
}

/** Seconds from the first append until all is in the database. */
async function ledgerSeconds(path: string): Promise<number> {
  const events = Array.from({ length: EVENTS }, (_, at) => event(at));
  const ledger = await Ledger.open(path, { sessionId: "bench" });
  const from = performance.now();
  for (let at = 0; at < EVENTS; at++) {
    ledger.append({ event: events[at] });
    // As in a VM, events come while others are written.
    if (at % BATCH_ROWS === 0) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  await ledger.flush();
  const seconds = (performance.now() - from) / 1000;
  await ledger.close();
  return seconds;
}

/** The rows that the ledger wrote, in the batches in which it wrote them. */
async function readRows(path: string): Promise<InValue[][]> {
  const client = createClient({ url: `file:${path}` });
  const { rows } = await client.execute(
    `SELECT ${PLAIN_COLUMNS.join(",")} FROM security_events ORDER BY sequence`,
  );
  client.close();
  const batches: InValue[][] = [];
  for (let at = 0; at < rows.length; at += BATCH_ROWS) {
    batches.push(
      rows.slice(at, at + BATCH_ROWS).flatMap((row) => PLAIN_COLUMNS.map((column) => row[column] as InValue)),
    );
  }
  return batches;
}

/** Seconds for the same rows into the same schema, with nothing worked out. */
async function bareSeconds(path: string, batches: InValue[][]): Promise<number> {
  const client = createClient({ url: `file:${path}` });
  await client.executeMultiple(PRAGMAS + SCHEMA);
  const from = performance.now();
  for (const args of batches) {
    await client.execute({
      sql: insertRows("security_events", PLAIN_COLUMNS, args.length / PLAIN_COLUMNS.length),
      args,
    });
  }
  const seconds = (performance.now() - from) / 1000;
  client.close();
  return seconds;
}

const folder = await Deno.makeTempDir();
try {
  const ledger: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const path = join(folder, `ledger-${round}.db`);
    ledger.push(await ledgerSeconds(path));
    bare.push(await bareSeconds(join(folder, `bare-${round}.db`), await readRows(path)));
  }
  const from = performance.now();
  const { ok, events } = await verifyLedger(join(folder, "ledger-0.db"));
  const verifySeconds = (performance.now() - from) / 1000;
  const best = { ledger: Math.min(...ledger), bare: Math.min(...bare) };
  console.log(JSON.stringify({
    bench: "ledger",
    events: EVENTS,
    events_per_second: Math.round(EVENTS / best.ledger),
    bare_rows_per_second: Math.round(EVENTS / best.bare),
    ratio: Math.round(best.bare / best.ledger * 100) / 100,
    verified: ok && events === EVENTS,
    verified_per_second: Math.round(EVENTS / verifySeconds),
  }));
} finally {
  await Deno.remove(folder, { recursive: true });
}
