/** Where events, decisions and findings are kept (contracts.md §12): one writer, many readers, a chain that proves itself. */
export { sealAbandoned } from "./abandoned.ts";
export type { LedgerDecision, LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
export { Ledger, type LedgerOptions } from "./ledger.ts";
export {
  type EventFilter,
  type EventPage,
  type LedgerEvent,
  PAGE_EVENTS,
  PAGE_EVENTS_MAX,
  readEvents,
  readFindings,
  readWhy,
} from "./read.ts";
export { type Verification, verifyLedger } from "./verify.ts";
