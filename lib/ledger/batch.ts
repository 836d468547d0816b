import { Buffer } from "node:buffer";
import { canonicalJson } from "../event/mod.ts";
import { blake3 } from "../hash/mod.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
import { digestText } from "./digest.ts";
import { BATCH_CHARS, BATCH_ROWS, type Insert, INSERTS } from "./schema.ts";

/** What a column takes. Nothing else may reach the database: its library ends the process on what it does not know. */
export type Value = string | number | null | Buffer;

/** One row that is ready to be added, and the characters or bytes of what it keeps. */
interface Ready {
  insert: Insert;
  size: number;
  values: Value[];
}

/** Rows that reach the database in one transaction. What throws has added nothing. */
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
    const record = decision && canonicalJson(decision);
    const others = findings?.length || rows?.length ? ready(findings, rows) : [];
    if (decision && record) {
      const values = this.#add(INSERTS.decided, text.length + record.length);
      values.push(sequence, event_id, event_type, text, prevHash, hash);
      values.push(decision.decision, decision.rule?.id ?? null, record, digestText(record, hash));
    } else {
      this.#add(INSERTS.plain, text.length).push(sequence, event_id, event_type, text, prevHash, hash);
    }
    this.#addAll(others);
    return hash;
  }

  /** Adds how an event ended, with its place in the chain of outcomes; answers its hash. */
  addOutcome(outcome: LedgerOutcome & { number: number }, prevHash: string): string {
    const { number, event_id } = outcome;
    const decision = outcome.decision?.decision ?? null;
    const text = canonicalJson(outcome);
    const hash = digestText(text, prevHash);
    this.#add(INSERTS.outcome, text.length).push(number, event_id, decision, text, prevHash, hash);
    return hash;
  }

  /** Adds rows that belong to no new event. */
  addRows(findings?: readonly LedgerFinding[], rows?: readonly LedgerRow[]): void {
    this.#addAll(ready(findings, rows));
  }

  #addAll(others: readonly Ready[]): void {
    for (const { insert, size, values } of others) this.#add(insert, size).push(...values);
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

function ready(findings: readonly LedgerFinding[] = [], rows: readonly LedgerRow[] = []): Ready[] {
  return [...findings.map(readyFinding), ...rows.map(readyRow)];
}

function readyFinding(finding: LedgerFinding): Ready {
  const { finding_id, event_id, rule_id } = finding;
  const text = canonicalJson(finding);
  const values = [finding_id, event_id, rule_id, text, digestText(text)];
  return { insert: INSERTS.finding, size: text.length, values };
}

function readyRow(row: LedgerRow): Ready {
  if (row.table === "body_blobs") {
    // A copy: the caller goes on with its own.
    const bytes = Buffer.from(row.bytes);
    const values = [blake3(bytes), row.content_type ?? null, bytes];
    return { insert: INSERTS.body, size: bytes.length, values };
  }
  const { ask_id, event_id } = row.record;
  const text = canonicalJson(row.record);
  return { insert: INSERTS.approval, size: text.length, values: [ask_id, event_id, text, digestText(text)] };
}
