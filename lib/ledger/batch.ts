/** Messages between a ledger and its writing thread; rows go in batches. */
import { canonicalJson } from "../base/json/mod.ts";
import {
  BATCH_CHARS,
  type LedgerEntry,
  type LedgerFinding,
  type LedgerOutcome,
  type LedgerRow,
} from "./schema.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Heads } from "./witness/schema.ts";

/** Rows of one message to the thread: in larger messages each row costs three times as much. */
const SEND_ROWS = 100;

/** Value of a text or number column. */
export type Value = string | number | null;

/** Body to store. */
export interface BodyRow {
  bytes: Uint8Array;
  content_type: string | null;
}

/**
 * Rows as sent to the writing thread: one flat list for each kind, because every
 * object costs time on both sides.
 */
export interface Rows {
  /**
   * {@linkcode EVENT_WIDTH} values each: sequence, event id, type, event, decision, rule id, decision record
   */
  events: Value[];
  /** {@linkcode OUTCOME_WIDTH} values each: number, event id, decision, outcome */
  outcomes: Value[];
  /** {@linkcode FINDING_WIDTH} values each: finding id, event id, rule id, finding */
  findings: string[];
  /** {@linkcode APPROVAL_WIDTH} values each: ask id, event id, record */
  approvals: string[];
  /** {@linkcode STATEMENT_WIDTH} values each: statement id, kind, record */
  statements: string[];
  bodies: BodyRow[];
  count: number;
  /** characters and bytes of all rows, without ids and hashes */
  size: number;
}

export const EVENT_WIDTH = 7;
export const OUTCOME_WIDTH = 4;
export const FINDING_WIDTH = 4;
export const APPROVAL_WIDTH = 3;
export const STATEMENT_WIDTH = 3;

/** Gathers rows as text. A method that throws has added nothing. */
export class Batch {
  readonly rows: Rows = {
    events: [],
    outcomes: [],
    findings: [],
    approvals: [],
    statements: [],
    bodies: [],
    count: 0,
    size: 0,
  };

  get empty(): boolean {
    return this.rows.count === 0;
  }

  get full(): boolean {
    return this.rows.count >= SEND_ROWS || this.rows.size >= BATCH_CHARS;
  }

  /** Adds one event with its place in the chain. */
  addEvent({ event, decision, findings, rows }: LedgerEntry): void {
    const { sequence, event_id, event_type } = event.common;
    const text = canonicalJson(event);
    const record = decision ? canonicalJson(decision) : null;
    const related = findings?.length || rows?.length ? toRelatedRows(findings, rows) : undefined;
    this.rows.events.push(
      sequence,
      event_id,
      event_type,
      text,
      decision ? decision.decision : null,
      decision?.rule?.id ?? null,
      record,
    );
    this.#count(text.length + (record?.length ?? 0));
    if (related) this.#addRelated(related);
  }

  /** Adds the end of an event with its place in the chain of outcomes. */
  addOutcome(outcome: LedgerOutcome & { number: number }): void {
    const text = canonicalJson(outcome);
    this.rows.outcomes.push(outcome.number, outcome.event_id, outcome.decision?.decision ?? null, text);
    this.#count(text.length);
  }

  /** Adds rows without a new event. */
  addRows(findings?: readonly LedgerFinding[], rows?: readonly LedgerRow[]): void {
    this.#addRelated(toRelatedRows(findings, rows));
  }

  #addRelated({ findings, approvals, statements, bodies }: RelatedRows): void {
    this.rows.findings.push(...findings);
    for (let at = 3; at < findings.length; at += FINDING_WIDTH) this.#count(findings[at].length);
    this.rows.approvals.push(...approvals);
    for (let at = 2; at < approvals.length; at += APPROVAL_WIDTH) this.#count(approvals[at].length);
    this.rows.statements.push(...statements);
    for (let at = 2; at < statements.length; at += STATEMENT_WIDTH) this.#count(statements[at].length);
    this.rows.bodies.push(...bodies);
    for (const { bytes } of bodies) this.#count(bytes.length);
  }

  #count(size: number): void {
    this.rows.count++;
    this.rows.size += size;
  }
}

type RelatedRows = Pick<Rows, "findings" | "approvals" | "statements" | "bodies">;

function toRelatedRows(
  findings: readonly LedgerFinding[] = [],
  rows: readonly LedgerRow[] = [],
): RelatedRows {
  const related: RelatedRows = { findings: [], approvals: [], statements: [], bodies: [] };
  for (const finding of findings) {
    related.findings.push(finding.finding_id, finding.event_id, finding.rule_id, canonicalJson(finding));
  }
  for (const row of rows) {
    if (row.table === "body_blobs") {
      // A copy: the caller may change its own.
      related.bodies.push({ bytes: row.bytes.slice(), content_type: row.content_type ?? null });
    } else if (row.table === "statements") {
      const { statement_id, kind } = row.record;
      related.statements.push(statement_id, kind, canonicalJson(row.record));
    } else {
      const { ask_id, event_id } = row.record;
      related.approvals.push(ask_id, event_id, canonicalJson(row.record));
    }
  }
  return related;
}

/** To the thread. Requests with an `id` are answered in order; rows are not. */
export type Request =
  | {
    do: "open";
    id: number;
    path: string;
    sessionId: string;
    maxBytes?: number;
    progress: SharedArrayBuffer;
  }
  | { do: "write"; rows: Rows }
  | { do: "flush"; id: number }
  /** flushes, and answers the last event */
  | { do: "last"; id: number }
  /** `maxBytes` as in the options */
  | { do: "limit"; id: number; maxBytes?: number }
  | { do: "close"; id: number };

/**
 * From the thread: an answer; a failed write, which is reported once until a flush succeeds; or the heads of
 * the rows in the file, when it was opened and after each write.
 */
export type Reply =
  | { id: number; value: unknown }
  | { id: number; error: PlainError }
  | { failed: PlainError }
  | { heads: Heads };

/** Answer to `open`: number of rows in each chain. */
export interface Opened {
  events: number;
  outcomes: number;
}

/** An error as sent between threads. */
interface PlainError {
  code: string;
  message: string;
  hint?: string;
  cause: string;
}

export function toPlainError({ code, message, hint, cause }: SbxError): PlainError {
  return { code, message, ...(hint !== undefined && { hint }), cause: String(cause) };
}

export function fromPlainError({ code, message, hint, cause }: PlainError): SbxError {
  return new SbxError(code, message, { cause, ...(hint !== undefined && { hint }) });
}
