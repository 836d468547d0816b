import { Buffer } from "node:buffer";
import { blake3 } from "../base/hash/mod.ts";
import { APPROVAL_WIDTH, EVENT_WIDTH, FINDING_WIDTH, OUTCOME_WIDTH, type Rows, type Value } from "./batch.ts";
import { digestText } from "./digest.ts";
import { type Insert, INSERTS } from "./schema.ts";
import type { ChainHeads } from "./seal.ts";

/** Value of any column. The database's library ends the process on values of other types. */
export type Column = Value | Buffer;

/**
 * The two chains of a ledger, of events and of outcomes: each row has a hash over itself and the hash before. Gathers
 * hashed rows until they are written.
 */
export class Chain {
  readonly heads: ChainHeads;
  /** values of all gathered rows, flat, by insert */
  readonly inserts = new Map<Insert, Column[]>();
  /** number of gathered rows */
  rows = 0;
  /** characters and bytes of the gathered rows, without ids and hashes */
  size = 0;

  constructor(heads: ChainHeads) {
    this.heads = heads;
  }

  /** Appends rows. */
  add({ events, outcomes, findings, approvals, bodies, count, size }: Rows): void {
    this.#addEvents(events);
    if (outcomes.length) this.#addOutcomes(outcomes);
    addRecords(this.#values(INSERTS.finding), findings, FINDING_WIDTH);
    addRecords(this.#values(INSERTS.approval), approvals, APPROVAL_WIDTH);
    for (const { bytes, content_type } of bodies) {
      this.#values(INSERTS.body).push(blake3(bytes), content_type, Buffer.from(bytes));
    }
    this.rows += count;
    this.size += size;
  }

  /** Forgets the gathered rows, after they were written. */
  clear(): void {
    this.inserts.clear();
    this.rows = this.size = 0;
  }

  #values(insert: Insert): Column[] {
    let values = this.inserts.get(insert);
    if (!values) this.inserts.set(insert, values = []);
    return values;
  }

  #addEvents(events: readonly Value[]): void {
    const [plain, decided] = [this.#values(INSERTS.plain), this.#values(INSERTS.decided)];
    for (let at = 0; at < events.length; at += EVENT_WIDTH) {
      const text = events[at + 3] as string;
      const record = events[at + 6] as string | null;
      const previous = this.heads.head_hash;
      const hash = digestText(text, previous);
      const values = record === null ? plain : decided;
      values.push(events[at], events[at + 1], events[at + 2], text, previous, hash);
      if (record !== null) values.push(events[at + 4], events[at + 5], record, digestText(record, hash));
      this.heads.head_hash = hash;
      this.heads.events++;
    }
  }

  #addOutcomes(outcomes: readonly Value[]): void {
    const values = this.#values(INSERTS.outcome);
    for (let at = 0; at < outcomes.length; at += OUTCOME_WIDTH) {
      const text = outcomes[at + 3] as string;
      const previous = this.heads.outcome_hash;
      const hash = digestText(text, previous);
      values.push(outcomes[at], outcomes[at + 1], outcomes[at + 2], text, previous, hash);
      this.heads.outcome_hash = hash;
      this.heads.outcomes++;
    }
  }
}

/** Copies rows whose last value is their text, and adds the hash of that. */
function addRecords(values: Column[], records: readonly string[], width: number): void {
  for (let at = 0; at < records.length; at += width) {
    for (let each = at; each < at + width; each++) values.push(records[each]);
    values.push(digestText(records[at + width - 1]));
  }
}
