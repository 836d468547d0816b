import type { Event } from "../event/mod.ts";

/** The part of a decision record that the ledger reads; it keeps the whole record (contracts.md §5). */
export interface LedgerDecision {
  decision: string;
  rule?: { id: string } | null;
}

/** The part of a finding that the ledger reads; it keeps the whole finding (contracts.md §6). */
export interface LedgerFinding {
  finding_id: string;
  event_id: string;
  rule_id: string;
}

/** A row beside the event's own. */
export type LedgerRow =
  | { table: "body_blobs"; bytes: Uint8Array; content_type?: string }
  | { table: "approvals"; record: { ask_id: string; event_id: string } };

/** How an event that was let go ended (its response, its timings), with a later decision where there was one. */
export interface LedgerOutcome {
  event_id: string;
  response?: unknown;
  decision?: LedgerDecision;
}

/** What is appended in one go: it is all in the ledger, or none of it. */
export interface LedgerEntry {
  /** its `common.sequence` is set by `append` */
  event: Event;
  decision?: LedgerDecision;
  findings?: readonly LedgerFinding[];
  rows?: readonly LedgerRow[];
}
