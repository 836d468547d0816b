import { canonicalJson } from "../event/mod.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
import { BATCH_CHARS } from "./schema.ts";

/** Rows that cross in one message: of larger ones each row costs three times as much. */
const HAND_ROWS = 100;

/** What a text column takes. */
export type Value = string | number | null;

/** A body as it is kept. */
export interface BodyRow {
  bytes: Uint8Array;
  content_type: string | null;
}

/**
 * Rows as they cross to the thread that writes them: one flat list for each kind, because every object costs there and
 * here.
 */
export interface Rows {
  /** {@linkcode EVENT_WIDTH} values each: sequence, event id, type, event, decision, rule id, decision record */
  events: Value[];
  /** {@linkcode OUTCOME_WIDTH} values each: number, event id, decision, outcome */
  outcomes: Value[];
  /** {@linkcode FINDING_WIDTH} values each: finding id, event id, rule id, finding */
  findings: string[];
  /** {@linkcode APPROVAL_WIDTH} values each: ask id, event id, record */
  approvals: string[];
  bodies: BodyRow[];
  count: number;
  /** characters and bytes of all rows, without their names and hashes */
  size: number;
}

export const EVENT_WIDTH = 7;
export const OUTCOME_WIDTH = 4;
export const FINDING_WIDTH = 4;
export const APPROVAL_WIDTH = 3;

/** Gathers rows as text. What throws has added nothing. */
export class Batch {
  readonly rows: Rows = {
    events: [],
    outcomes: [],
    findings: [],
    approvals: [],
    bodies: [],
    count: 0,
    size: 0,
  };

  get empty(): boolean {
    return this.rows.count === 0;
  }

  get full(): boolean {
    return this.rows.count >= HAND_ROWS || this.rows.size >= BATCH_CHARS;
  }

  /** Adds one event with its place in the chain. */
  addEvent({ event, decision, findings, rows }: LedgerEntry): void {
    const { sequence, event_id, event_type } = event.common;
    const text = canonicalJson(event);
    const record = decision ? canonicalJson(decision) : null;
    const others = findings?.length || rows?.length ? ready(findings, rows) : undefined;
    this.rows.events.push(
      sequence,
      event_id,
      event_type,
      text,
      decision ? decision.decision : null,
      decision?.rule?.id ?? null,
      record,
    );
    this.#counted(text.length + (record?.length ?? 0));
    if (others) this.#addAll(others);
  }

  /** Adds how an event ended, with its place in the chain of outcomes. */
  addOutcome(outcome: LedgerOutcome & { number: number }): void {
    const text = canonicalJson(outcome);
    this.rows.outcomes.push(outcome.number, outcome.event_id, outcome.decision?.decision ?? null, text);
    this.#counted(text.length);
  }

  /** Adds rows that belong to no new event. */
  addRows(findings?: readonly LedgerFinding[], rows?: readonly LedgerRow[]): void {
    this.#addAll(ready(findings, rows));
  }

  #addAll({ findings, approvals, bodies }: Pick<Rows, "findings" | "approvals" | "bodies">): void {
    this.rows.findings.push(...findings);
    for (let at = 3; at < findings.length; at += FINDING_WIDTH) this.#counted(findings[at].length);
    this.rows.approvals.push(...approvals);
    for (let at = 2; at < approvals.length; at += APPROVAL_WIDTH) this.#counted(approvals[at].length);
    this.rows.bodies.push(...bodies);
    for (const { bytes } of bodies) this.#counted(bytes.length);
  }

  #counted(size: number): void {
    this.rows.count++;
    this.rows.size += size;
  }
}

function ready(findings: readonly LedgerFinding[] = [], rows: readonly LedgerRow[] = []) {
  const others = { findings: [] as string[], approvals: [] as string[], bodies: [] as BodyRow[] };
  for (const finding of findings) {
    others.findings.push(finding.finding_id, finding.event_id, finding.rule_id, canonicalJson(finding));
  }
  for (const row of rows) {
    if (row.table === "body_blobs") {
      // A copy: the caller goes on with its own.
      others.bodies.push({ bytes: row.bytes.slice(), content_type: row.content_type ?? null });
    } else {
      const { ask_id, event_id } = row.record;
      others.approvals.push(ask_id, event_id, canonicalJson(row.record));
    }
  }
  return others;
}
