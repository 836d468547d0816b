/**
 * The fleet's way of a record: written to ledgers, shipped, received, made into tables, hunted through.
 * Ratios are against the ledger and the matcher of the same run. EVENTS and COPIES choose sizes; each copy of
 * the tables adds as many rows to the hunts.
 */
import { join } from "node:path";
import process from "node:process";
import { type DetectionIr, type IrRule, Matcher, type MatchValue } from "../../lib/detection/mod.ts";
import type { Event } from "../../lib/event/mod.ts";
import { enginesFolder } from "../../lib/fleet/engine.ts";
import { enrol, makeToken, Receiver } from "../../lib/fleet/receive/mod.ts";
import { Shipper } from "../../lib/fleet/ship/mod.ts";
import { hunt, openRecords, writeTables } from "../../lib/fleet/table/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { readEvents } from "../../lib/ledger/read/mod.ts";
import { formatPublicKey } from "../../lib/release/signing/mod.ts";
import { ir, rule } from "../helper/detection.ts";
import { eventCommon, httpRequest, processExec } from "../helper/event.ts";
import { newKey } from "../helper/fleet.ts";
import { Random } from "../helper/random.ts";

const EVENTS = Number(Deno.env.get("EVENTS") ?? 100_000);
const COPIES = Number(Deno.env.get("COPIES") ?? 10);
const SESSIONS = 10;
const random = new Random(1);

function eventOf(session_id: string, at: number): Event {
  const common = { session_id, timestamp_unix_ms: 1_760_000_000_000 + at * 137 };
  if (at % 10 < 2) {
    const request = { qname: `host${random.below(400)}.example.com`, qtype: "A", transport: "udp" };
    return { schema_version: 1, common: eventCommon("dns.query", common), dns: { request } };
  }
  if (at % 10 < 4) {
    const executable = random.pick(["git", "node", "npm", "bash", "python3", "cargo"]);
    const activity = processExec({
      executable,
      command: `${executable} run task-${random.below(5000)} --verbose`,
    });
    return { schema_version: 1, common: eventCommon("process.exec", common), process: { activity } } as Event;
  }
  const request = httpRequest({
    method: random.pick(["GET", "GET", "GET", "POST", "PUT"]),
    host: `host${random.below(400)}.example.com`,
    path: `/api/v1/items/${random.below(100_000)}`,
    bytes: random.below(4000),
    headers: {
      "user-agent": ["npm/10.2.4 node/v20"],
      accept: ["application/json"],
      "accept-encoding": ["gzip"],
    },
  });
  return { schema_version: 1, common: eventCommon("http.request", common), http: { request } } as Event;
}

/** A hundred rules, a tenth of them over responses. */
function pack(): DetectionIr {
  const rules: IrRule[] = Array.from({ length: 100 }, (_, at) => {
    const tests: Record<string, MatchValue[]> = at % 10 === 0
      ? { "http.request.host": [`host${at}.example.com`], "http.response.status": [500, 503] }
      : at % 3 === 0
      ? { "dns.request.qname": [`evil${at}.example.net`, `bad${at}.example.net`] }
      : at % 3 === 1
      ? { "http.request.host": [`host${at}.example.com`], "http.request.method": ["PUT", "DELETE"] }
      : { "process.activity.executable": [`tool-${at}`] };
    return rule(`rule-${at}`, tests);
  });
  return ir(rules);
}

async function measured<T>(work: () => Promise<T>) {
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  const value = await work();
  const used = process.cpuUsage(cpu);
  return { value, s: (performance.now() - began) / 1000, cpu_s: (used.user + used.system) / 1e6 };
}

async function sizeOf(dir: string, ending: string): Promise<number> {
  let bytes = 0;
  for await (const { name, isDirectory } of Deno.readDir(dir)) {
    const path = join(dir, name);
    if (isDirectory) bytes += await sizeOf(path, ending);
    else if (name.endsWith(ending)) bytes += (await Deno.stat(path)).size;
  }
  return bytes;
}

if (!await Deno.stat(join(enginesFolder(), "node_modules")).then(() => true, () => false)) {
  console.log(
    JSON.stringify({
      name: "fleet",
      skipped: "make engines installs DuckDB and chdb; set SBX_FLEET_ENGINES",
    }),
  );
  Deno.exit(0);
}
const dir = await Deno.makeTempDir();
const store = join(dir, "store");
const ids = Array.from({ length: SESSIONS }, () => crypto.randomUUID());
const ledgerOf = (id: string) => join(dir, "ledgers", id, "session.db");

/** Writes the ledger of one session. */
async function write(id: string): Promise<void> {
  await Deno.mkdir(join(dir, "ledgers", id), { recursive: true });
  await using ledger = await Ledger.open(ledgerOf(id), { sessionId: id });
  for (let at = 0; at < EVENTS / SESSIONS; at++) {
    const event = eventOf(id, at);
    ledger.append({ event, decision: { decision: "allow", rule: { id: "allow-web" } } });
    const status = random.below(50) === 0 ? 503 : 200;
    if (event.http) {
      ledger.end({ event_id: event.common.event_id, response: { status, bytes: 100, headers: {} } });
    }
    if (at % 2000 === 1999) await ledger.flush();
  }
}

const key = await newKey();
const { token } = await makeToken(store);
await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name: "bench" });
const segments: Uint8Array[] = [];
const target = {
  name: "memory",
  send: (segment: Uint8Array) => Promise.resolve((segments.push(segment), { kept: true as const })),
  report: () => Promise.resolve(),
};
const shipper = new Shipper({ dir: join(dir, "cursors"), key, target });
const receiver = new Receiver(store);
const sum = { written: 0, shipped: 0, received: 0, written_cpu: 0, shipped_cpu: 0, received_cpu: 0 };
const ratios: number[] = [];
// Session by session, so that what else the machine does meets all three alike.
for (const id of ids) {
  const before = segments.length;
  const written = await measured(() => write(id));
  const shipped = await measured(() => shipper.ship(id, ledgerOf(id)));
  const received = await measured(async () => {
    for (const segment of segments.slice(before)) await receiver.take(segment);
  });
  for (const [name, { s, cpu_s }] of Object.entries({ written, shipped, received })) {
    sum[name as "written"] += s;
    sum[`${name as "written"}_cpu`] += cpu_s;
  }
  ratios.push(shipped.cpu_s / written.cpu_s);
}
/** Most memory of a process that does one half alone, in MiB. */
async function peakOf(half: "ship" | "receive" | "nothing"): Promise<number> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--quiet",
      "--no-check",
      new URL("fleet_half.ts", import.meta.url).pathname,
      half,
      dir,
    ],
    stderr: "inherit",
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).peak_mb;
}
const peak_mb = {
  nothing: await peakOf("nothing"),
  ship: await peakOf("ship"),
  receive: await peakOf("receive"),
};
const tabled = await measured(() => writeTables(store));
const sqlite_bytes = await sizeOf(join(dir, "ledgers"), ".db");
const parquet_bytes = await sizeOf(join(store, "parts"), ".parquet");
const irs = [pack()];
const matched = await measured(async () => {
  let matches = 0;
  const matcher = new Matcher(irs);
  for (const id of ids) {
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const page = await readEvents(ledgerOf(id), { cursor, limit: 1000 });
      for (const event of page.events) matches += matcher.hits(event).length;
      cursor = page.next_cursor;
    }
  }
  return matches;
});
const [part] = (await Array.fromAsync(Deno.readDir(join(store, "parts")))).filter(({ isDirectory }) =>
  isDirectory
);
for (let copy = 1; copy < COPIES; copy++) {
  // Other sessions: an end belongs to the event of its own.
  const to = join(store, "parts", `copy${copy}`);
  await Deno.mkdir(to);
  for (const name of ["events", "outcomes", "journal"]) {
    await using over = await openRecords(`duckdb://${store}`);
    await over.engine.rows(
      `COPY (SELECT * REPLACE (concat('${copy}-', session_id) AS session_id) FROM read_parquet('${store}/parts/${part.name}/${name}.parquet'))
        TO '${to}/${name}.parquet' (FORMAT parquet, COMPRESSION zstd)`,
    );
  }
}
const hunts: Record<string, unknown> = {};
const perEvent = matched.s / EVENTS;
for (const kind of ["duckdb", "chdb"]) {
  await using over = await openRecords(`${kind}://${store}`);
  const requests = {
    ...irs[0],
    rules: irs[0].rules.filter(({ matchers }) =>
      matchers.every(({ field_path }) => !field_path.includes("response"))
    ),
  };
  for (const [name, packs] of [["all", irs], ["requests", [requests]]] as const) {
    const { value, s } = await measured(() => hunt(over, packs));
    hunts[`${kind}_${name}`] = {
      matches: value.length,
      s,
      times_matcher: perEvent / (s / (EVENTS * COPIES)),
    };
  }
}
console.log(JSON.stringify({
  name: "fleet",
  events: EVENTS,
  load: Deno.loadavg()[0],
  ledger_events_per_s: EVENTS / sum.written,
  ledger_events_per_cpu_s: EVENTS / sum.written_cpu,
  ship_events_per_s: EVENTS / sum.shipped,
  ship_events_per_cpu_s: EVENTS / sum.shipped_cpu,
  ship_cpu_per_ledger_cpu: ratios.toSorted((a, b) => a - b)[Math.floor(ratios.length / 2)],
  segment_bytes_per_sqlite: segments.reduce((bytes, { length }) => bytes + length, 0) / sqlite_bytes,
  receive_events_per_s: EVENTS / sum.received,
  receive_events_per_cpu_s: EVENTS / sum.received_cpu,
  peak_mb,
  table_events_per_s: EVENTS / tabled.s,
  parquet_per_sqlite: parquet_bytes / sqlite_bytes,
  sqlite_bytes_per_event: sqlite_bytes / EVENTS,
  matcher_events_per_s: EVENTS / matched.s,
  matcher_matches: matched.value,
  hunt_events: EVENTS * COPIES,
  hunts,
  rss_mb: Deno.memoryUsage().rss / 2 ** 20,
}));
await Deno.remove(dir, { recursive: true });
