/**
 * Events per second written to a ledger, beside bare multi-row INSERTs of the same rows in the same run.
 * Prints one JSON object. The `cpu` figures, user plus system time, vary less on a busy machine.
 */
import { Database, type SqlValue } from "../../lib/ledger/database.ts";
import { assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import process from "node:process";
import { setImmediate } from "node:timers";
import { home as homeOf } from "../../lib/base/home/mod.ts";
import { type Event, newEventId } from "../../lib/event/mod.ts";
import { type ChainHeads, Ledger } from "../../lib/ledger/mod.ts";
import { verifyLedger } from "../../lib/ledger/read/mod.ts";
import { BATCH_ROWS, INSERTS, insertSql, MIGRATE, PLAIN_COLUMNS, PRAGMAS } from "../../lib/ledger/schema.ts";
import { Witnesses } from "../../lib/service/record/witness.ts";
import { sessionPaths } from "../../lib/session/mod.ts";
import { rounded } from "../helper/statistics.ts";

const SESSION = "bench";
const EVENTS = 100_000;
const ROUNDS = 3;

function event(at: number): Event {
  const path = `/workspace/src/module-${at}/file.ts`;
  return {
    schema_version: 1,
    common: {
      event_id: newEventId(),
      event_type: "file.activity",
      session_id: SESSION,
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

/** Cost of some work, in `s`. */
interface Cost {
  wall: number;
  cpu: number;
}

async function costOf(work: () => Promise<unknown>): Promise<Cost> {
  const began = performance.now();
  const cpu = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(cpu);
  return { wall: (performance.now() - began) / 1000, cpu: (user + system) / 1e6 };
}

/** Differences of a ledger from one with events alone. */
interface Kind {
  /** each event has an outcome */
  ended?: boolean;
  /** gets the heads of each write */
  onHeads?(heads: ChainHeads): void;
}

/** Cost from the first append until all is in the database. */
async function ledgerCost(path: string, { ended, onHeads }: Kind = {}): Promise<Cost> {
  const events = Array.from({ length: EVENTS }, (_, at) => event(at));
  const ledger = await Ledger.open(path, { sessionId: SESSION, onHeads });
  const cost = await costOf(async () => {
    for (let at = 0; at < EVENTS; at++) {
      ledger.append({ event: events[at] });
      if (ended) ledger.end({ event_id: events[at].common.event_id, duration_ms: at });
      // As in a VM, events arrive while others are written.
      if (at % BATCH_ROWS === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await ledger.flush();
  });
  await ledger.close();
  return cost;
}

/** Cost of a ledger whose heads are witnessed as by the service, without messages between two processes. */
async function witnessedCost(dir: string): Promise<Cost> {
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const witnesses = new Witnesses(home);
  const path = sessionPaths(home, SESSION).ledger;
  await Deno.mkdir(dirname(path), { recursive: true });
  const written = await ledgerCost(path, { onHeads: (heads) => witnesses.take(SESSION, heads) });
  const ended = await costOf(() => witnesses.ended(SESSION));
  assertEquals(await witnesses.problems(), []);
  return { wall: written.wall + ended.wall, cpu: written.cpu + ended.cpu };
}

/** Reads the rows of a ledger in the batches in which they were written. */
async function readRows(path: string): Promise<SqlValue[][]> {
  const client = new Database(path);
  const { rows } = await client.execute(
    `SELECT ${PLAIN_COLUMNS.join(",")} FROM entries ORDER BY sequence`,
  );
  client.close();
  const batches: SqlValue[][] = [];
  for (let at = 0; at < rows.length; at += BATCH_ROWS) {
    batches.push(
      rows.slice(at, at + BATCH_ROWS).flatMap((row) =>
        PLAIN_COLUMNS.map((column) => row[column] as SqlValue)
      ),
    );
  }
  return batches;
}

/** Cost of inserting the same rows into the same schema, without hashing. */
async function bareCost(path: string, batches: SqlValue[][]): Promise<Cost> {
  const client = new Database(path);
  for (const sql of [...PRAGMAS, MIGRATE]) await client.executeMultiple(sql);
  const cost = await costOf(async () => {
    for (const args of batches) {
      await client.execute({ sql: insertSql(INSERTS.plain, args.length / PLAIN_COLUMNS.length), args });
    }
  });
  client.close();
  return cost;
}

function best(costs: Cost[]): Cost {
  return {
    wall: Math.min(...costs.map(({ wall }) => wall)),
    cpu: Math.min(...costs.map(({ cpu }) => cpu)),
  };
}

const folder = await Deno.makeTempDir();
try {
  const costs = { ledger: [] as Cost[], bare: [] as Cost[], ended: [] as Cost[], witnessed: [] as Cost[] };
  for (let round = 0; round < ROUNDS; round++) {
    const path = join(folder, `ledger-${round}.db`);
    costs.ledger.push(await ledgerCost(path));
    costs.bare.push(await bareCost(join(folder, `bare-${round}.db`), await readRows(path)));
    costs.ended.push(await ledgerCost(join(folder, `ended-${round}.db`), { ended: true }));
    costs.witnessed.push(await witnessedCost(join(folder, `home-${round}`)));
  }
  let verified = false;
  const verify = await costOf(async () => {
    const { ok, events } = await verifyLedger(join(folder, "ended-0.db"));
    verified = ok && events === EVENTS;
  });
  const [ledger, bare, ended, witnessed] = [costs.ledger, costs.bare, costs.ended, costs.witnessed].map(best);
  console.log(JSON.stringify({
    bench: "ledger",
    events: EVENTS,
    events_per_second: Math.round(EVENTS / ledger.wall),
    bare_rows_per_second: Math.round(EVENTS / bare.wall),
    ratio: rounded(bare.wall / ledger.wall),
    event_cpu_us: rounded(ledger.cpu / EVENTS * 1e6),
    bare_cpu_us: rounded(bare.cpu / EVENTS * 1e6),
    cpu_ratio: rounded(bare.cpu / ledger.cpu),
    events_with_outcomes_per_second: Math.round(EVENTS / ended.wall),
    witnessed_cpu_ratio: rounded(witnessed.cpu / ledger.cpu),
    verified,
    verified_per_second: Math.round(EVENTS / verify.wall),
  }));
} finally {
  await Deno.remove(folder, { recursive: true });
}
