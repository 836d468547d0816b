import {
  type ClickHouseClient,
  MAILBOX_STATEMENTS,
  reportsSince,
  segmentsFrom,
  sessionHeads,
} from "../clickhouse/mod.ts";
import type { ChainHeads } from "../../ledger/mod.ts";
import type { SegmentTables, TableSession } from "./table.ts";

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
