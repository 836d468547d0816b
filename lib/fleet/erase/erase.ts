/**
 * Erases rows in every store: segments keep the hashes of their chains, tables lose the rows, and a signed
 * statement, which the log names, says what went (docs/guides/fleet.md, "Life of data").
 */
import { dirname, join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { SigningKey } from "../../release/mod.ts";
import { FLEET_LOG_TYPE, signText } from "../../release/signing/mod.ts";
import { readStoreKey, StoreLog } from "../log/mod.ts";
import { findMachine, keyOf, redactMachine } from "../receive/mod.ts";
import { HEX64, openStored, redactSegment, type RowTest, SESSION_ID, verifyRows } from "../segment/mod.ts";
import { namesIn, positionOf, sessionFolder, storePaths } from "../store.ts";
import type { SessionKey, Subject } from "./subject.ts";

/** Longest wait for programs that write tables, in `ms`: a round of theirs may take minutes. */
const LOCK_MS = timeLimit(10 * 60_000);

const count = z.int().min(0);
const Key = { machine_id: z.string().regex(HEX64), session_id: z.string().regex(SESSION_ID) };

/** Statement of an erasure: the proof of it. It names no person. */
export const Erasure = z.strictObject({
  schema: z.literal("sbx.fleet-erasure.v1"),
  id: z.uuid(),
  at: z.iso.datetime(),
  by: z.string().max(256),
  cause: z.enum(["request", "retention"]),
  reason: z.string().max(256).optional(),
  /** machines whose names were erased too */
  machines: z.array(z.string().regex(HEX64)),
  /** rows that lost their content, by session; their hashes stay */
  sessions: z.array(
    z.strictObject({ ...Key, segments: count, events: count, outcomes: count, journal: count }),
  ),
  /** findings of hunts */
  findings: count,
  /** parts of Parquet tables that were removed: the next `fleet tables` writes their other rows again */
  parts: count,
  /** sessions with segments that do not verify: evidence, which stays */
  unverified: z.array(z.strictObject(Key)),
  /** server whose tables lost the rows, without credentials */
  server: z.string().optional(),
});
export type Erasure = z.infer<typeof Erasure>;

/** Tables on a server that hold the same rows. */
export interface EraseTables {
  /** address without credentials */
  name: string;
  /** deletes rows of a session; settles when no query finds them */
  erase(session: SessionKey, rows: Record<Chain, Range[]>): Promise<void>;
}

export type Chain = "events" | "outcomes" | "journal";
/** Numbers of rows in a chain, from 1 on: the first and the last. */
export type Range = [number, number];

export interface EraseRequest {
  by: string;
  cause: Erasure["cause"];
  reason?: string;
  /** machines whose names go too */
  machines?: Subject["machines"];
  sessions: readonly SessionKey[];
  /** makes the test of rows of one segment; absent: all rows */
  rows?: (key: SessionKey, segment: string) => Promise<RowTest | undefined>;
  /** findings of hunts that go, beside the ones of whole sessions; by line */
  findings?: (finding: { machine_id?: string; found_at?: string }) => boolean;
  tables?: EraseTables;
}

/** An erasure that has begun: a program that is killed leaves it, and the next one ends it. */
const Pending = z.strictObject({ sessions: z.array(z.strictObject(Key)) });

/**
 * Erases.
 *
 * @returns the statement; `undefined`: there was nothing left to erase
 * @throws {SbxError} `fleet.busy`; of the tables
 */
export async function erase(dir: string, request: EraseRequest): Promise<Erasure | undefined> {
  const { parts, findings } = storePaths(dir);
  for (const folder of [parts, findings]) await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  // Writers of tables have rows in memory that would come back.
  using _tables = await lock(join(parts, ".lock"), dir);
  using _loader = await lock(join(dir, ".clickhouse.lock"), dir);
  using _hunt = await lock(join(findings, ".lock"), dir);
  const key = await StoreLog.of(dir).key();
  const id = crypto.randomUUID();
  const before = await readPending(dir);
  const touched = new Map(before.sessions.map((each) => [nameOf(each), each]));
  const sums: Erasure["sessions"] = [];
  const unverified: SessionKey[] = [];
  for (const session of request.sessions) {
    const sum = await eraseSession(dir, session, request, { key, id }, async () => {
      if (touched.has(nameOf(session))) return;
      touched.set(nameOf(session), session);
      // Before the first row goes: the tables must lose it, also when this program is killed.
      await writePending(dir, [...touched.values()]);
    }, unverified);
    if (sum.segments > 0) sums.push(sum);
  }
  const whole = request.rows ? [] : request.sessions;
  const removedParts = await removeParts(parts, [...touched.values()]);
  const removedFindings = await removeFindings(findings, whole, request.findings);
  let onServer = 0;
  if (request.tables) {
    // Also of an erasure that went without the tables before.
    for (const session of request.rows ? touched.values() : request.sessions) {
      const rows = await erasedRows(dir, session);
      onServer += rows.events.length + rows.outcomes.length + rows.journal.length;
      await request.tables.erase(session, rows);
    }
  }
  const machines: string[] = [];
  for (const machine of request.machines ?? []) {
    if (await redactMachine(dir, machine)) machines.push(machine.machine_id);
  }
  const isNothing = sums.length + removedFindings + machines.length + before.sessions.length + onServer === 0;
  if (isNothing) return undefined;
  const erasure = Erasure.parse({
    schema: "sbx.fleet-erasure.v1",
    id,
    at: new Date().toISOString(),
    by: request.by,
    cause: request.cause,
    ...(request.reason !== undefined && { reason: request.reason }),
    machines,
    sessions: sums,
    findings: removedFindings,
    parts: removedParts,
    unverified,
    ...(request.tables && { server: request.tables.name }),
  });
  await keepStatement(dir, "erased", key, erasure);
  await ifFound(Deno.remove(pendingPath(dir)));
  return erasure;
}

/** Signs a statement, keeps it, and names it in the log. */
export async function keepStatement(
  dir: string,
  kind: "erased" | "exported",
  key: SigningKey,
  statement: { id: string },
): Promise<void> {
  const text = canonicalJson(statement);
  const path = join(storePaths(dir).statements, `${statement.id}.json`);
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, await signText(key, FLEET_LOG_TYPE, text));
  await StoreLog.of(dir).append({ kind, statement: blake3(text) });
}

async function eraseSession(
  dir: string,
  session: SessionKey,
  { rows }: EraseRequest,
  { key, id }: { key: SigningKey; id: string },
  onFirst: () => Promise<void>,
  unverified: SessionKey[],
): Promise<Erasure["sessions"][number]> {
  const sum = { ...session, segments: 0, events: 0, outcomes: 0, journal: 0 };
  const machine = await findMachine(dir, session.machine_id);
  if (!machine) return sum;
  const own = keyOf(machine);
  const storeKey = await readStoreKey(dir);
  const folder = sessionFolder(dir, session.machine_id, session.session_id);
  for (const name of (await namesIn(folder)).filter(positionOf).sort()) {
    const test = rows ? await rows(session, name) : () => true;
    if (!test) continue;
    const path = join(folder, name);
    const bytes = await Deno.readFile(path);
    let redacted: Awaited<ReturnType<typeof redactSegment>>;
    try {
      const opened = await openStored(bytes, (id) => id === own.id ? own : undefined, storeKey);
      redacted = await redactSegment(bytes, opened, test, key, id);
    } catch (error) {
      if (!(error instanceof SbxError) || error.code !== "fleet.segment.invalid") throw error;
      // The store cannot sign for the rest of rows that no machine signed; others must not wait for it.
      if (unverified.at(-1) !== session) unverified.push(session);
      continue;
    }
    if (!redacted) continue;
    await onFirst();
    const { atime, mtime } = await Deno.stat(path);
    await writeAtomic(path, redacted.bytes);
    // It arrived when it arrived: retention counts from then.
    await Deno.utime(path, atime ?? new Date(), mtime ?? new Date());
    sum.segments++;
    for (const chain of ["events", "outcomes", "journal"] as const) sum[chain] += redacted.erased[chain];
  }
  return sum;
}

/** Numbers of the rows of a session that have no content any more. */
async function erasedRows(
  dir: string,
  { machine_id, session_id }: SessionKey,
): Promise<Record<Chain, Range[]>> {
  const rows: Record<Chain, Range[]> = { events: [], outcomes: [], journal: [] };
  const machine = await findMachine(dir, machine_id);
  const own = machine && keyOf(machine);
  const storeKey = await readStoreKey(dir);
  const folder = sessionFolder(dir, machine_id, session_id);
  for (const name of (await namesIn(folder)).filter(positionOf).sort()) {
    const bytes = await Deno.readFile(join(folder, name));
    const opened = await openStored(bytes, (id) => id === own?.id ? own : undefined, storeKey).catch(() =>
      undefined
    );
    if (!opened?.redaction) continue;
    const { events, outcomes, journal } = opened.header.from;
    const at = { events, outcomes, journal };
    for (const line of verifyRows(opened)) {
      const kind = line.kind === "erased" ? line.of : line.kind;
      const chain = kind === "journal" ? kind : `${kind}s` as const;
      const number = ++at[chain];
      if (line.kind !== "erased" && !(line.kind === "journal" && line.text === null)) continue;
      const last = rows[chain].at(-1);
      if (last?.[1] === number - 1) last[1] = number;
      else rows[chain].push([number, number]);
    }
  }
  return rows;
}

/** Removes parts with segments of sessions. */
async function removeParts(parts: string, sessions: readonly SessionKey[]): Promise<number> {
  const names = new Set(sessions.map(nameOf));
  let removed = 0;
  for await (const { name, isDirectory } of Deno.readDir(parts)) {
    if (!isDirectory || name.startsWith(".")) continue;
    const segments: string[] = JSON.parse(await Deno.readTextFile(join(parts, name, "segments.json")));
    if (!segments.some((segment) => names.has(segment.slice(0, segment.lastIndexOf("/"))))) continue;
    // Its own rename hides it at once; half of a removed part would be read.
    const away = join(parts, `.${name}.erased`);
    await Deno.rename(join(parts, name), away);
    await Deno.remove(away, { recursive: true });
    removed++;
  }
  return removed;
}

/** Removes findings of hunts. @returns their number */
async function removeFindings(
  folder: string,
  sessions: readonly SessionKey[],
  more: EraseRequest["findings"],
): Promise<number> {
  const names = new Set(sessions.map(nameOf));
  if (names.size === 0 && !more) return 0;
  let removed = 0;
  for await (const pack of Deno.readDir(folder)) {
    if (!pack.isDirectory) continue;
    for (const name of await namesIn(join(folder, pack.name))) {
      if (!name.endsWith(".jsonl")) continue;
      const path = join(folder, pack.name, name);
      const [first, ...lines] = (await Deno.readTextFile(path)).trimEnd().split("\n");
      const kept = lines.filter((line) => {
        const finding = JSON.parse(line);
        return !names.has(nameOf(finding)) && !more?.(finding);
      });
      if (kept.length === lines.length) continue;
      removed += lines.length - kept.length;
      // The first line says that the pack was hunted.
      await writeAtomic(path, [first, ...kept].join("\n") + "\n");
    }
  }
  return removed;
}

function nameOf({ machine_id, session_id }: SessionKey): string {
  return `${machine_id}/${session_id}`;
}

async function lock(path: string, dir: string): Promise<Deno.FsFile> {
  const file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_MS)) return file;
  file.close();
  throw new SbxError("fleet.busy", `another program writes tables or hunts in ${dir}`, {
    hint: "try again when it has ended; nothing was erased",
  });
}

function pendingPath(dir: string): string {
  return join(storePaths(dir).statements, "pending.json");
}

async function readPending(dir: string): Promise<z.infer<typeof Pending>> {
  const text = await ifFound(Deno.readTextFile(pendingPath(dir)));
  return text === undefined ? { sessions: [] } : Pending.parse(JSON.parse(text));
}

async function writePending(dir: string, sessions: readonly SessionKey[]): Promise<void> {
  await Deno.mkdir(dirname(pendingPath(dir)), { recursive: true, mode: 0o700 });
  await writeAtomic(pendingPath(dir), JSON.stringify({ sessions }));
}
