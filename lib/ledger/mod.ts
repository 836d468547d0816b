/**
 * The record of a session (docs/contracts.md §12): its one writer, and the types of its rows. Loads no database, which only
 * the writing thread needs; `read/mod.ts` has the readers.
 */
export type {
  LastEvent,
  LedgerDecision,
  LedgerEntry,
  LedgerFinding,
  LedgerOutcome,
  LedgerRow,
} from "./entry.ts";
export { Ledger, type LedgerOptions } from "./ledger.ts";
export { startThreadAhead } from "./thread.ts";
