import { Buffer } from "node:buffer";
import { canonicalJson } from "../event/mod.ts";
import { blake3 } from "../hash/mod.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
import { digestText } from "./digest.ts";
import { BATCH_CHARS, BATCH_ROWS, type Insert, INSERTS } from "./schema.ts";

/** What a column takes. */
export type Value = string | number | null | Buffer;

/** Rows that reach the database in one transaction. */
export class Batch {
  /** values of every row, one after the other, by the insert that adds them */
  readonly inserts = new Map<Insert, Value[]>();
  /** characters and bytes of all rows, without their names and hashes */
  size = 0;
  #rows = 0;

  get full(): boolean {
    return this.#rows >= BATCH_ROWS || this.size >= BATCH_CHARS;
  }

  /** Adds one event with its place in the chain; answers its hash. */
  addEvent({ event, decision, findings, rows }: LedgerEntry, prevHash: string): string {
    const { sequence, event_id, event_type } = event.common;
    const text = canonicalJson(event);
    const hash = digestText(text, prevHash);
    if (decision) {
      const record = canonicalJson(decision);
      const digest = digestText(record, hash);
      this.#add(INSERTS.decided, text.length + record.length).push(
        ...[sequence, event_id, event_type, text, prevHash, hash],
        ...[decision.decision, decision.rule?.id ?? null, record, digest],
      );
    } else {
      this.#add(INSERTS.plain, text.length).push(sequence, event_id, event_type, text, prevHash, hash);
    }
    if (findings) { for (const finding of findings) this.addFinding(finding); }
    if (rows) { for (const row of rows) this.addRow(row); }
    return hash;
  }

  /** Adds how an event ended, with its place in the chain of outcomes; answers its hash. */
  addOutcome(outcome: LedgerOutcome & { number: number }, prevHash: string): string {
    const { number, event_id, decision } = outcome;
    const text = canonicalJson(outcome);
    const hash = digestText(text, prevHash);
    this.#add(INSERTS.outcome, text.length).push(
      ...[number, event_id, decision?.decision ?? null, text, prevHash, hash],
    );
    return hash;
  }

  addFinding(finding: LedgerFinding): void {
    const { finding_id, event_id, rule_id } = finding;
    const text = canonicalJson(finding);
    this.#add(INSERTS.finding, text.length).push(finding_id, event_id, rule_id, text, digestText(text));
  }

  addRow(row: LedgerRow): void {
    if (row.table === "body_blobs") {
      const { buffer, byteOffset, byteLength } = row.bytes;
      const bytes = Buffer.from(buffer, byteOffset, byteLength);
      this.#add(INSERTS.body, byteLength).push(blake3(bytes), row.content_type ?? null, bytes);
      return;
    }
    const { ask_id, event_id } = row.record;
    const text = canonicalJson(row.record);
    this.#add(INSERTS.approval, text.length).push(ask_id, event_id, text, digestText(text));
  }

  /** Counts a row; answers where its values go. */
  #add(insert: Insert, size: number): Value[] {
    this.#rows++;
    this.size += size;
    let values = this.inserts.get(insert);
    if (!values) this.inserts.set(insert, values = []);
    return values;
  }
}
