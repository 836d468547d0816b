import type { Event } from "../event/mod.ts";

/**
 * Fields of a decision record that the ledger reads; the whole record is stored
 * (docs/design/contracts/05-policy.md §5).
 */
export interface LedgerDecision {
  decision: string;
  rule?: { id: string } | null;
}

/**
 * Fields of a finding that the ledger reads; the whole finding is stored
 * (docs/design/contracts/06-detection.md §6).
 */
export interface LedgerFinding {
  finding_id: string;
  event_id: string;
  rule_id: string;
}

/** Row of another table. */
export type LedgerRow =
  | { table: "body_blobs"; bytes: Uint8Array; content_type?: string }
  | { table: "approvals"; record: { ask_id: string; event_id: string } }
  | { table: "statements"; record: LedgerStatement };

/**
 * The host's statement about the session besides its events: how it booted, which settings are active
 * (docs/design/contracts/12-ledger.md §12).
 */
export interface LedgerStatement {
  statement_id: string;
  kind: string;
}

/** End of an event, with its final decision if that differs from the first one. */
export interface LedgerOutcome {
  event_id: string;
  /** response object of the event's family */
  response?: unknown;
  decision?: LedgerDecision;
  /** `ms` from the decision to the first byte of the response */
  first_byte_ms?: number;
  /** `ms` from the decision to the end of the response */
  duration_ms?: number;
  /** reason of an early end */
  error?: string;
}

/** Rows appended together: all of them are written, or none. */
export interface LedgerEntry {
  /** its `common.sequence` is set by `append` */
  event: Event;
  decision?: LedgerDecision;
  findings?: readonly LedgerFinding[];
  rows?: readonly LedgerRow[];
}

/** The end of a chain of events: an event, and the hash of its row, with its decision. */
export interface LastEvent {
  id: string;
  hash: string;
}
