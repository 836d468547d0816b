/**
 * Readers of ledgers (docs/design/contracts/12-ledger.md §12): queries, proofs, collection, and the index of
 * sessions. Loads the database.
 */
export {
  type EventConditions,
  type EventFilter,
  type EventPage,
  type LedgerEvent,
  PAGE_CHARS,
  PAGE_EVENTS,
  PAGE_EVENTS_MAX,
  readApproval,
  readEvents,
  readLast,
  readSizedEvents,
  readWhy,
  type SizedEvent,
  toLedgerEvent,
} from "./events.ts";
export { LedgerTail } from "./tail.ts";
export { type EventText, ledgerEventOf } from "./texts.ts";
export { countByRule, countEvents, type EventCount } from "./counts.ts";
export { readApprovals, readSentLater } from "./answers.ts";
export {
  collect,
  collectHead,
  type CollectOptions,
  collectRest,
  type CollectTarget,
  readToken,
  startCollecting,
  uncollectedMark,
} from "./collect.ts";
export {
  costsByModel,
  type DayCosts,
  type ModelCosts,
  readCosts,
  readCostsByDay,
  readSpending,
  type RecordedSpending,
  sumCosts,
} from "./spending.ts";
export {
  countFindings,
  type DeniedEvent,
  type FindingCount,
  type FindingFilter,
  type FindingRow,
  type LatestSecurity,
  readFindingPage,
  readFindingRows,
  readFindingRowsOf,
  readFindings,
  readLastGap,
  readLatest,
} from "./findings.ts";
export {
  type Evidence,
  EVIDENCE_ROWS_MAX,
  type EvidenceList,
  readEvidence,
  readStatements,
} from "./evidence.ts";
export {
  type ChainLengths,
  isRest,
  type LedgerRows,
  readHeads,
  readHeadsAt,
  readHeadsAtEach,
  readRowsAfter,
} from "./rows.ts";
export { renameDamagedIndex, sealAbandoned, type SessionEntry, SessionIndex } from "./sessions.ts";
export { exportRecord } from "./export.ts";
export {
  readOwner,
  type SealCheck,
  type SealSigner,
  type Verification,
  verifyLedger,
  type Witnessed,
} from "./verify.ts";
