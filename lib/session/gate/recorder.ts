import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "../../ledger/mod.ts";

/** The record that a gate writes; the session's ledger is one. */
export interface Recorder {
  /**
   * Records an event with its decision and findings.
   *
   * @throws {SbxError} `ledger.unavailable` when an earlier record could not be written: fail closed
   */
  append(entry: LedgerEntry): void;
  /** Records the end of an event. @throws {SbxError} `ledger.unavailable` */
  end(outcome: LedgerOutcome): void;
  /** Records rows without a new event. @throws {SbxError} `ledger.unavailable` */
  add(extra: { findings?: readonly LedgerFinding[]; rows?: readonly LedgerRow[] }): void;
  /** @throws {SbxError} `ledger.unavailable` while records cannot be written */
  requireWritable(): void;
}
