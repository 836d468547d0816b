/**
 * Verified segments → tables of ClickHouse. The tables themselves show the progress: a loader keeps no state.
 */
import { join } from "node:path";
import { log } from "../../base/log/mod.ts";
import { lockWithin } from "../../base/home/mod.ts";
import type { ClickHouseClient } from "../clickhouse/mod.ts";
import { viewStatements } from "../question/mod.ts";
import { findMachine, keyOf, listMachines } from "../receive/mod.ts";
import { openStored, verifyRows } from "../segment/mod.ts";
import { readStoreKey } from "../log/mod.ts";
import { positionOf, storePaths } from "../store.ts";
import { schemaStatements } from "./columns.ts";
import { eventRow, journalRow, outcomeRow, type TableRow } from "./row.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { pause } from "../../base/time/mod.ts";

/** Characters of texts after which rows are inserted. */
const BATCH_CHARS = 32 * 1024 * 1024;

/** Behind all names of segments. */
const LAST_NAME = "~";

const CHAINS = ["events", "outcomes", "journal"] as const;
type Chain = typeof CHAINS[number];
/** Rows of each chain that a table has. */
type Loaded = Record<Chain, number>;

/** Rows that were inserted. */
export interface LoadedRows {
  segments: number;
  events: number;
}

/**
 * Loads the rows of a store into ClickHouse, each session in order. A row repeated after a lost answer
 * replaces itself: the tables are read with FINAL.
 */
export class ClickHouseLoader {
  readonly #dir: string;
  readonly #client: ClickHouseClient;
  /** rows by machine and session; absent until the tables were asked */
  #loaded?: Map<string, Loaded>;
  /** name of each session's last segment that is loaded, or cannot be */
  readonly #last = new Map<string, string>();
  #machines = "";

  constructor(dir: string, client: ClickHouseClient) {
    this.#dir = dir;
    this.#client = client;
  }

  /**
   * Makes the tables and views, and adds columns an earlier sbx lacked.
   *
   * @throws {SbxError} errors of the client
   */
  async prepare(): Promise<void> {
    const statements = [...schemaStatements("clickhouse"), ...viewStatements("clickhouse")];
    for (const statement of statements) await this.#client.run(statement);
  }

  /**
   * Inserts rows missing from the tables; does nothing while another receiver of this store inserts.
   *
   * @throws {SbxError} errors of the client: the next call inserts the rest
   */
  async round(): Promise<LoadedRows> {
    const sum: LoadedRows = { segments: 0, events: 0 };
    await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
    using lock = await Deno.open(join(this.#dir, ".clickhouse.lock"), {
      create: true,
      write: true,
      mode: 0o600,
    });
    if (!await lockWithin(lock, 0)) {
      // The other receiver inserts: query the tables again next time.
      this.#loaded = undefined;
      return sum;
    }
    try {
      this.#loaded ??= await this.#ask();
      await this.#loadMachines();
      await this.#loadSegments(sum);
      return sum;
    } catch (error) {
      this.#loaded = undefined;
      throw error;
    }
  }

  async #loadSegments(sum: LoadedRows): Promise<void> {
    const loaded = this.#loaded!;
    let batch = new Batch();
    const finish = async () => {
      for (const chain of CHAINS) {
        if (batch.rows[chain].length > 0) await this.#client.insert(chain, batch.rows[chain]);
      }
      for (const [key, ends] of batch.ends) loaded.set(key, ends);
      for (const [key, name] of batch.last) this.#last.set(key, name);
      sum.segments += batch.segments;
      sum.events += batch.rows.events.length;
      batch = new Batch();
    };
    for await (const { machineId, sessionId, name, next } of withNext(allSegments(this.#dir))) {
      const key = `${machineId}/${sessionId}`;
      // Names say where segments begin, and are sorted.
      if (name <= (batch.last.get(key) ?? this.#last.get(key) ?? "")) continue;
      const has = batch.ends.get(key) ?? loaded.get(key) ?? { events: 0, outcomes: 0, journal: 0 };
      // Where the next one begins this one ends.
      if (next && CHAINS.every((chain) => next[chain] <= has[chain])) continue;
      const opened = await this.#open(machineId, sessionId, name);
      if (!opened) {
        this.#last.set(key, LAST_NAME);
        continue;
      }
      const { from, to, lines } = opened;
      batch.add({ machine_id: machineId, session_id: sessionId }, from, has, lines);
      batch.ends.set(key, { events: to.events, outcomes: to.outcomes, journal: to.journal });
      batch.last.set(key, name);
      if (batch.chars >= BATCH_CHARS) await finish();
    }
    await finish();
  }

  /**
   * Opens a segment; `undefined`: it was changed, which `fleet verify` reports and which stops its session
   * alone.
   */
  async #open(machineId: string, sessionId: string, name: string) {
    const machine = await findMachine(this.#dir, machineId);
    if (!machine) return undefined;
    const own = keyOf(machine);
    const path = join(storePaths(this.#dir).segments, machineId, sessionId, name);
    try {
      const opened = await openStored(
        await Deno.readFile(path),
        (id) => id === own.id ? own : undefined,
        await readStoreKey(this.#dir),
      );
      return { ...opened.header, lines: verifyRows(opened) };
    } catch (error) {
      log.error(`session ${sessionId} of ${machineId} is not loaded: ${name}: ${(error as Error).message}`);
      return undefined;
    }
  }

  async #loadMachines(): Promise<void> {
    const machines = await listMachines(this.#dir);
    const text = JSON.stringify(machines);
    if (text === this.#machines || machines.length === 0) return;
    await this.#client.insert(
      "machines",
      machines.map(({ machine_id, name, team = "", enrolled_at }) => ({
        machine_id,
        name,
        team,
        enrolled_at,
      })),
    );
    this.#machines = text;
  }

  /**
   * Rows in the tables by session: sessions are inserted in order, so that the last one marks the position.
   */
  async #ask(): Promise<Map<string, Loaded>> {
    const loaded = new Map<string, Loaded>();
    for (const chain of CHAINS) {
      const number = chain === "events" ? "sequence" : "number";
      const rows = await this.#client.rows(
        `SELECT machine_id, session_id, max(${number}) AS last FROM ${chain} GROUP BY machine_id, session_id`,
      );
      for (const { machine_id, session_id, last } of rows) {
        const key = `${machine_id}/${session_id}`;
        const ends = loaded.get(key) ?? { events: 0, outcomes: 0, journal: 0 };
        ends[chain] = Number(last);
        loaded.set(key, ends);
      }
    }
    return loaded;
  }
}

/** Rows on their way into the tables. */
class Batch {
  readonly rows: Record<Chain, TableRow[]> = { events: [], outcomes: [], journal: [] };
  readonly ends = new Map<string, Loaded>();
  readonly last = new Map<string, string>();
  segments = 0;
  chars = 0;

  /** @param has rows that the tables have */
  add(
    place: { machine_id: string; session_id: string },
    from: Loaded,
    has: Loaded,
    lines: ReturnType<typeof verifyRows>,
  ): void {
    this.segments++;
    const at = { events: from.events, outcomes: from.outcomes, journal: from.journal };
    for (const line of lines) {
      const kind = line.kind === "erased" ? line.of : line.kind;
      const chain = kind === "journal" ? "journal" : `${kind}s` as Chain;
      const number = ++at[chain];
      if (line.kind === "erased" || number <= has[chain]) continue;
      const key = { ...place, number };
      if (line.kind === "event") this.rows.events.push(eventRow(key, line));
      else if (line.kind === "outcome") this.rows.outcomes.push(outcomeRow(key, line));
      else this.rows.journal.push(journalRow(key, line));
      this.chars += line.text?.length ?? 0;
    }
  }
}

/** Segments with the position at which the next one of their session begins. */
async function* withNext(segments: ReturnType<typeof allSegments>) {
  let before: { machineId: string; sessionId: string; name: string } | undefined;
  for await (const segment of segments) {
    if (before) {
      const isSame = before.machineId === segment.machineId && before.sessionId === segment.sessionId;
      yield { ...before, next: isSame ? positionOf(segment.name) : undefined };
    }
    before = segment;
  }
  if (before) yield { ...before, next: undefined };
}

/** Segments of a store, session by session, each session in order. */
export async function* allSegments(dir: string) {
  const { segments } = storePaths(dir);
  for (const machineId of await folders(segments)) {
    for (const sessionId of await folders(join(segments, machineId))) {
      const names = (await Array.fromAsync(Deno.readDir(join(segments, machineId, sessionId)))).map((
        { name },
      ) => name);
      for (const name of names.filter(positionOf).sort()) yield { machineId, sessionId, name };
    }
  }
}

async function folders(dir: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(dir))).filter(({ isDirectory }) => isDirectory).map((
      { name },
    ) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Interval between rounds in `ms`, and the longest wait while the server is away. */
const ROUND_MS = 1000;
const WAIT_MAX_MS = 60_000;
/** A round that found nothing may take one part of so many. */
const SHARE = 20;

/** Loads until aborted. A server that is away, full or not ready delays only its tables. */
export async function keepLoading(
  loader: ClickHouseLoader,
  signal: AbortSignal,
  onLoaded?: (rows: LoadedRows) => void,
): Promise<void> {
  let isPrepared = false;
  let wait = ROUND_MS;
  let problem = "";
  while (!signal.aborted) {
    const start = performance.now();
    try {
      if (!isPrepared) await loader.prepare();
      isPrepared = true;
      const rows = await loader.round();
      if (rows.segments > 0) onLoaded?.(rows);
      // While rows arrive the next round has work; otherwise looking for some must not take the machine.
      wait = rows.segments > 0 ? ROUND_MS : Math.max(ROUND_MS, (performance.now() - start) * SHARE);
      problem = "";
    } catch (cause) {
      const { message } = asSbxError(cause, "loading rows into ClickHouse");
      if (message !== problem) log.warn(`rows are not loaded yet: ${message}`);
      problem = message;
      wait = Math.min(wait * 2, WAIT_MAX_MS);
    }
    await pause(wait, signal);
  }
}
