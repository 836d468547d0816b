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

/** How an event ended, with what was decided of it last where that was not known at first. */
export interface LedgerOutcome {
  event_id: string;
  /** the response object of the event's family */
  response?: unknown;
  decision?: LedgerDecision;
  /** milliseconds from the decision to the first byte of the answer, and to its end */
  first_byte_ms?: number;
  duration_ms?: number;
  /** what broke it off */
  error?: string;
}

/** What is appended in one go: it is all in the ledger, or none of it. */
export interface LedgerEntry {
  /** its `common.sequence` is set by `append` */
  event: Event;
  decision?: LedgerDecision;
  findings?: readonly LedgerFinding[];
  rows?: readonly LedgerRow[];
}
