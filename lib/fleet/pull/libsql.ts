import type { ChainHeads } from "../../ledger/mod.ts";
import type { FleetDatabase } from "../libsql/mod.ts";
import type { SegmentTables, TableSession } from "./table.ts";

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
