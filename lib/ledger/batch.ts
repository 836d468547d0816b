import type { InStatement, InValue } from "@libsql/client/sqlite3";
import { canonicalJson } from "../event/mod.ts";
import { blake3 } from "../hash/mod.ts";
import type { LedgerEntry, LedgerFinding, LedgerRow } from "./entry.ts";
import { BATCH_ROWS, insertEvents } from "./schema.ts";

const FULL_INSERT = insertEvents(BATCH_ROWS);

/** Rows that reach the database in one transaction. */
export class Batch {
  readonly #args: InValue[] = [];
  readonly #others: InStatement[] = [];
  #events = 0;

  get full(): boolean {
    return this.#events >= BATCH_ROWS;
  }

  /** Adds one event with its place in the chain; answers its hash. */
  addEvent({ event, decision, findings, rows }: LedgerEntry, prevHash: string): string {
    const { common } = event;
    const text = canonicalJson(event);
    const record = decision ? canonicalJson(decision) : null;
    const hash = blake3(text + prevHash);
    this.#args.push(
      common.sequence,
      common.event_id,
      common.event_type,
      decision?.decision ?? null,
      decision?.rule?.id ?? null,
      text,
      record,
      prevHash,
      hash,
      record === null ? null : blake3(record + hash),
    );
    this.#events++;
    if (findings) { for (const finding of findings) this.addFinding(finding); }
    if (rows) { for (const row of rows) this.addRow(row); }
    return hash;
  }

  addFinding(finding: LedgerFinding): void {
    const text = canonicalJson(finding);
    this.#others.push({
      sql: "INSERT OR IGNORE INTO findings (finding_id, event_id, rule_id, finding, hash) VALUES (?,?,?,?,?)",
      args: [finding.finding_id, finding.event_id, finding.rule_id, text, blake3(text)],
    });
  }

  addRow(row: LedgerRow): void {
    if (row.table === "body_blobs") {
      this.#others.push({
        sql: "INSERT OR IGNORE INTO body_blobs (hash, content_type, bytes) VALUES (?,?,?)",
        args: [blake3(row.bytes), row.content_type ?? null, row.bytes],
      });
      return;
    }
    const text = canonicalJson(row.record);
    this.#others.push({
      sql: "INSERT OR REPLACE INTO approvals (ask_id, event_id, record, hash) VALUES (?,?,?,?)",
      args: [row.record.ask_id, row.record.event_id, text, blake3(text)],
    });
  }

  /** The statements of this batch, events first. */
  statements(): InStatement[] {
    const events = this.#events === BATCH_ROWS ? FULL_INSERT : insertEvents(this.#events);
    return this.#events ? [{ sql: events, args: this.#args }, ...this.#others] : this.#others;
  }
}
