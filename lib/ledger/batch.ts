import type { InStatement, InValue } from "@libsql/client/sqlite3";
import { canonicalJson } from "../event/mod.ts";
import { blake3 } from "../hash/mod.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
import { digestText } from "./digest.ts";
import { BATCH_ROWS, EVENT_COLUMNS, insertRows, OUTCOME_COLUMNS, PLAIN_COLUMNS } from "./schema.ts";

/** Rows that reach the database in one transaction. */
export class Batch {
  /** Events without a decision have fewer columns to write, and each costs. */
  readonly #plain: InValue[] = [];
  readonly #decided: InValue[] = [];
  readonly #outcomes: InValue[] = [];
  readonly #others: InStatement[] = [];
  #rows = 0;

  get full(): boolean {
    return this.#rows >= BATCH_ROWS;
  }

  /** Adds one event with its place in the chain; answers its hash. */
  addEvent({ event, decision, findings, rows }: LedgerEntry, prevHash: string): string {
    const { sequence, event_id, event_type } = event.common;
    const text = canonicalJson(event);
    const hash = digestText(text, prevHash);
    this.#rows++;
    if (decision) {
      const record = canonicalJson(decision);
      const digest = digestText(record, hash);
      this.#decided.push(sequence, event_id, event_type, text, prevHash, hash);
      this.#decided.push(decision.decision, decision.rule?.id ?? null, record, digest);
    } else this.#plain.push(sequence, event_id, event_type, text, prevHash, hash);
    if (findings) { for (const finding of findings) this.addFinding(finding); }
    if (rows) { for (const row of rows) this.addRow(row); }
    return hash;
  }

  /** Adds how an event ended, with its place in the chain of outcomes; answers its hash. */
  addOutcome(outcome: LedgerOutcome & { number: number }, prevHash: string): string {
    const text = canonicalJson(outcome);
    const hash = digestText(text, prevHash);
    this.#rows++;
    this.#outcomes.push(outcome.number, outcome.event_id, text, prevHash, hash);
    return hash;
  }

  addFinding(finding: LedgerFinding): void {
    const text = canonicalJson(finding);
    this.#others.push({
      sql: "INSERT OR IGNORE INTO findings (finding_id, event_id, rule_id, finding, hash) VALUES (?,?,?,?,?)",
      args: [finding.finding_id, finding.event_id, finding.rule_id, text, digestText(text)],
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
      args: [row.record.ask_id, row.record.event_id, text, digestText(text)],
    });
  }

  /** The statements of this batch, events first. */
  statements(): InStatement[] {
    const inserts = [
      insertOf("security_events", PLAIN_COLUMNS, this.#plain),
      insertOf("security_events", EVENT_COLUMNS, this.#decided),
      insertOf("outcomes", OUTCOME_COLUMNS, this.#outcomes),
    ];
    return [...inserts.filter((insert) => insert !== undefined), ...this.#others];
  }
}

function insertOf(table: string, columns: readonly string[], args: InValue[]): InStatement | undefined {
  return args.length ? { sql: insertRows(table, columns, args.length / columns.length), args } : undefined;
}
