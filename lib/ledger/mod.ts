/**
 * The record of a session (docs/design/contracts/12-ledger.md §12): its one writer, and the types of its
 * rows. Loads no database, which only the writing thread needs; `read/mod.ts` has the readers.
 */
export {
  GENESIS,
  type JournalKind,
  type LastEvent,
  type LedgerDecision,
  type LedgerEntry,
  type LedgerFinding,
  type LedgerOutcome,
  type LedgerRow,
  type LedgerStatement,
} from "./schema.ts";
export { Ledger, type LedgerOptions, startThreadAhead } from "./ledger.ts";
export { type ChainHeads, digestText, journalLink, sameHeads, START_HEADS } from "./chain.ts";
