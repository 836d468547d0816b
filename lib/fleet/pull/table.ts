/** Reads segments and reports from a database's tables, starting at the end of the store's own content. */
import { asSbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { pause } from "../../base/time/mod.ts";
import type { ChainHeads } from "../../ledger/mod.ts";
import { readEnd } from "../receive/mod.ts";
import { Heads, HEX64, sameHeads, SESSION_ID } from "../segment/mod.ts";
import { sessionFolder } from "../store.ts";
import { type Pulled, takeReport, takeSegment } from "./take.ts";
import {
  type ClickHouseClient,
  MAILBOX_STATEMENTS,
  reportsSince,
  segmentsFrom,
  sessionHeads,
} from "../clickhouse/mod.ts";
import type { FleetDatabase } from "../libsql.ts";

/** Polling interval in `ms`, and the longest wait while the database is away. */
const ROUND_MS = 1000;
const WAIT_MAX_MS = 60_000;
/** Segments read at once. */
const BATCH = 16;
/** Rounds after which a missing segment is reported as a gap. */
const PATIENCE = 10;

/** A session in the tables. */
interface TableSession {
  machine_id: string;
  session_id: string;
  /** heads that its last segment ends with, as JSON */
  heads: string;
}

/** Tables that machines put segments and reports into. */
interface SegmentTables {
  /** the database, for messages */
  readonly name: string;
  /** Makes the tables if they are missing. */
  prepare(): Promise<void>;
  sessions(): Promise<TableSession[]>;
  /** Segments that begin at a position or behind it, in order. */
  segments(session: TableSession, from: ChainHeads, limit: number): Promise<Uint8Array[]>;
  /** Reports since the last call, possibly with repeats of earlier ones. */
  reports(): Promise<string[]>;
  close?(): void;
}

/** Options for reading tables. */
export interface TablePull extends Pulled {
  tables: SegmentTables;
  signal: AbortSignal;
  /** called after each round with the segments that were kept */
  onKept?(segments: number): void;
}

/** Reads until aborted. Several receivers of one store may read the same tables. */
export async function pullTables({ tables, signal, onKept, ...pulled }: TablePull): Promise<void> {
  const reader = new TableReader(pulled, tables);
  let isPrepared = false;
  let wait = ROUND_MS;
  let problem = "";
  while (!signal.aborted) {
    try {
      if (!isPrepared) await tables.prepare();
      isPrepared = true;
      const kept = await reader.round(signal);
      if (kept > 0) onKept?.(kept);
      wait = ROUND_MS;
      problem = "";
    } catch (cause) {
      const { message } = asSbxError(cause, `reading ${tables.name}`);
      if (message !== problem) log.warn(`${message}; trying again`);
      problem = message;
      wait = Math.min(wait * 2, WAIT_MAX_MS);
    }
    await pause(wait, signal);
  }
  tables.close?.();
}

class TableReader {
  /** heads of sessions that are read to the end, or whose rest is refused */
  readonly #settled = new Map<string, string>();
  readonly #tries = new Map<string, number>();

  constructor(readonly pulled: Pulled, readonly tables: SegmentTables) {}

  /** @returns segments that were kept */
  async round(signal: AbortSignal): Promise<number> {
    let kept = 0;
    for (const session of await this.tables.sessions()) {
      if (signal.aborted) break;
      const { machine_id, session_id, heads } = session;
      const key = `${machine_id}/${session_id}`;
      // Ids become names of files.
      if (!HEX64.test(machine_id) || !SESSION_ID.test(session_id) || this.#settled.get(key) === heads) {
        continue;
      }
      const count = await this.#session(key, session);
      if (count === undefined) this.#settled.set(key, heads);
      else kept += count;
    }
    for (const report of await this.tables.reports()) {
      await takeReport(this.pulled, new TextEncoder().encode(report));
    }
    return kept;
  }

  /** @returns count of segments kept; `undefined`: the present content has nothing more to take */
  async #session(key: string, session: TableSession): Promise<number | undefined> {
    const folder = sessionFolder(this.pulled.dir, session.machine_id, session.session_id);
    const last = readHeads(session.heads);
    let kept = 0;
    while (true) {
      const end = await readEnd(folder);
      if (last && sameHeads(end, last)) return kept || undefined;
      const segments = await this.tables.segments(session, end, BATCH);
      if (segments.length === 0) return kept || undefined;
      for (const bytes of segments) {
        const tries = this.#tries.get(key) ?? 0;
        const verdict = await takeSegment(this.pulled, bytes, tries < PATIENCE);
        // One that another account put there: the rest follows.
        if (verdict === "never") continue;
        if (verdict === "later") {
          this.#tries.set(key, tries + 1);
          return kept;
        }
        kept++;
      }
      this.#tries.delete(key);
      if (sameHeads(await readEnd(folder), end)) return kept || undefined;
    }
  }
}

function readHeads(text: string): ChainHeads | undefined {
  try {
    return Heads.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Seconds that a report may take to appear behind later ones. */
const LATE_S = 60;

/** Segments and reports in a ClickHouse server. */
export class ClickHouseTables implements SegmentTables {
  readonly name: string;
  readonly #client: ClickHouseClient;
  /** when the last report came, in Unix `s` */
  #since = 0;
  #taken = new Set<string>();

  constructor(client: ClickHouseClient) {
    this.#client = client;
    this.name = client.address.name;
  }

  async prepare(): Promise<void> {
    for (const statement of MAILBOX_STATEMENTS) await this.#client.run(statement);
  }

  sessions(): Promise<TableSession[]> {
    return sessionHeads(this.#client);
  }

  segments(session: TableSession, from: ChainHeads, limit: number): Promise<Uint8Array[]> {
    return segmentsFrom(this.#client, session, from, limit);
  }

  async reports(): Promise<string[]> {
    const rows = await reportsSince(this.#client, Math.max(0, this.#since - LATE_S));
    const fresh = rows.filter(({ report }) => !this.#taken.has(report));
    this.#taken = new Set(rows.map(({ report }) => report));
    this.#since = rows.reduce((last, { at }) => Math.max(last, at), this.#since);
    return fresh.map(({ report }) => report);
  }
}

/** DDL. Report ids grow with each report, also for one that replaces another. */
const STATEMENTS = [
  `CREATE TABLE IF NOT EXISTS fleet_segments (
  machine_id TEXT NOT NULL, session_id TEXT NOT NULL,
  from_events INTEGER NOT NULL, from_outcomes INTEGER NOT NULL, from_journal INTEGER NOT NULL,
  to_heads TEXT NOT NULL, segment TEXT NOT NULL, received_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (machine_id, session_id, from_events, from_outcomes, from_journal))`,
  `CREATE TABLE IF NOT EXISTS fleet_reports (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  machine_id TEXT NOT NULL, kind TEXT NOT NULL, session_id TEXT NOT NULL, report TEXT NOT NULL,
  received_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
  UNIQUE (machine_id, kind, session_id))`,
];

/** Segments and reports in a libSQL server. */
export class LibsqlTables implements SegmentTables {
  readonly name: string;
  #last = 0;

  constructor(readonly database: FleetDatabase) {
    this.name = database.name;
  }

  async prepare(): Promise<void> {
    for (const statement of STATEMENTS) await this.database.run(statement);
  }

  async sessions(): Promise<TableSession[]> {
    const { rows } = await this.database.run(
      `SELECT machine_id, session_id, to_heads FROM (SELECT machine_id, session_id, to_heads, row_number() OVER (
  PARTITION BY machine_id, session_id ORDER BY from_events DESC, from_outcomes DESC, from_journal DESC) AS place
  FROM fleet_segments) WHERE place = 1`,
    );
    return rows.map(({ machine_id, session_id, to_heads }) => ({
      machine_id: String(machine_id),
      session_id: String(session_id),
      heads: String(to_heads),
    }));
  }

  async segments({ machine_id, session_id }: TableSession, from: ChainHeads, limit: number) {
    const { rows } = await this.database.run(
      `SELECT segment FROM fleet_segments WHERE machine_id = ? AND session_id = ?
AND (from_events, from_outcomes, from_journal) >= (?, ?, ?)
ORDER BY from_events, from_outcomes, from_journal LIMIT ?`,
      [machine_id, session_id, from.events, from.outcomes, from.journal, limit],
    );
    return rows.map(({ segment }) => Uint8Array.fromBase64(String(segment)));
  }

  async reports(): Promise<string[]> {
    const { rows } = await this.database.run(
      "SELECT id, report FROM fleet_reports WHERE id > ? ORDER BY id LIMIT 10000",
      [this.#last],
    );
    this.#last = rows.reduce((last, { id }) => Math.max(last, Number(id)), this.#last);
    return rows.map(({ report }) => String(report));
  }
}
