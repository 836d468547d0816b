import { Buffer } from "node:buffer";
import { blake3 } from "../hash/mod.ts";
import { APPROVAL_WIDTH, EVENT_WIDTH, FINDING_WIDTH, OUTCOME_WIDTH, type Rows, type Value } from "./batch.ts";
import { digestText } from "./digest.ts";
import { type Insert, INSERTS } from "./schema.ts";
import type { ChainHeads } from "./seal.ts";

/** What a column takes. Nothing else may reach the database: its library ends the process on what it does not know. */
export type Column = Value | Buffer;

/** Rows with their hashes: values of every row, one after the other, by the insert that adds them. */
export interface Hashed {
  inserts: Map<Insert, Column[]>;
  /** characters and bytes of all rows, without their names and hashes */
  size: number;
}

/** The two chains of a ledger: each event, and each outcome, has its hash over itself and the one before. */
export class Chain {
  readonly heads: ChainHeads;

  constructor(heads: ChainHeads) {
    this.heads = heads;
  }

  /** Puts rows behind those that are there. */
  add({ events, outcomes, findings, approvals, bodies, size }: Rows): Hashed {
    const inserts = new Map<Insert, Column[]>();
    const of = (insert: Insert) => {
      let values = inserts.get(insert);
      if (!values) inserts.set(insert, values = []);
      return values;
    };
    this.#addEvents(events, of);
    if (outcomes.length) this.#addOutcomes(outcomes, of(INSERTS.outcome));
    for (let at = 0; at < findings.length; at += FINDING_WIDTH) {
      addRecord(of(INSERTS.finding), findings, at, FINDING_WIDTH);
    }
    for (let at = 0; at < approvals.length; at += APPROVAL_WIDTH) {
      addRecord(of(INSERTS.approval), approvals, at, APPROVAL_WIDTH);
    }
    for (const { bytes, content_type } of bodies) {
      of(INSERTS.body).push(blake3(bytes), content_type, Buffer.from(bytes));
    }
    return { inserts, size };
  }

  #addEvents(events: readonly Value[], of: (insert: Insert) => Column[]): void {
    let plain: Column[] | undefined;
    let decided: Column[] | undefined;
    for (let at = 0; at < events.length; at += EVENT_WIDTH) {
      const text = events[at + 3] as string;
      const record = events[at + 6] as string | null;
      const before = this.heads.head_hash;
      const hash = digestText(text, before);
      const values = record === null ? plain ??= of(INSERTS.plain) : decided ??= of(INSERTS.decided);
      values.push(events[at], events[at + 1], events[at + 2], text, before, hash);
      if (record !== null) values.push(events[at + 4], events[at + 5], record, digestText(record, hash));
      this.heads.head_hash = hash;
      this.heads.events++;
    }
  }

  #addOutcomes(outcomes: readonly Value[], values: Column[]): void {
    for (let at = 0; at < outcomes.length; at += OUTCOME_WIDTH) {
      const text = outcomes[at + 3] as string;
      const before = this.heads.outcome_hash;
      const hash = digestText(text, before);
      values.push(outcomes[at], outcomes[at + 1], outcomes[at + 2], text, before, hash);
      this.heads.outcome_hash = hash;
      this.heads.outcomes++;
    }
  }
}

/** A row whose last value is its text, with the hash of that. */
function addRecord(values: Column[], from: readonly string[], at: number, width: number): void {
  for (let each = at; each < at + width; each++) values.push(from[each]);
  values.push(digestText(from[at + width - 1]));
}
