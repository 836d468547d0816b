/**
 * The record of a session (docs/design/contracts/12-ledger.md §12): its one writer, and the types of its
 * rows. Loads no database, which only the writing thread needs; `read/mod.ts` has the readers.
 */
export type {
  LastEvent,
  LedgerDecision,
  LedgerEntry,
  LedgerFinding,
  LedgerOutcome,
  LedgerRow,
  LedgerStatement,
} from "./entry.ts";
export { Ledger, type LedgerOptions } from "./ledger.ts";
export { digestText, journalLink } from "./link.ts";
export { GENESIS, type JournalKind } from "./schema.ts";
export type { ChainHeads } from "./seal.ts";
export { startThreadAhead } from "./thread.ts";
