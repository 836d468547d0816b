/**
 * Readers of ledgers (docs/design/contracts/12-ledger.md §12): queries, proofs, collection, and the index of
 * sessions. Loads the database.
 */
export { readApproval } from "./approvals.ts";
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
export { type ModelCosts, readCosts } from "./costs.ts";
export {
  type EventFilter,
  type EventPage,
  type LedgerEvent,
  PAGE_EVENTS,
  PAGE_EVENTS_MAX,
  readEvents,
  readLast,
  readWhy,
  toLedgerEvent,
} from "./events.ts";
export {
  countFindings,
  type FindingCount,
  type FindingRow,
  readFindingRows,
  readFindings,
} from "./findings.ts";
export { type EventConditions } from "./filter.ts";
export { readLastGap } from "./gap.ts";
export {
  type Evidence,
  EVIDENCE_ROWS_MAX,
  type EvidenceList,
  readEvidence,
  readStatements,
} from "./evidence.ts";
export { type DeniedEvent, type LatestSecurity, readLatest } from "./latest.ts";
export { type ChainLengths, readHeads, readHeadsAt } from "./heads.ts";
export { type LedgerRows, readRowsAfter } from "./rows.ts";
export { sealAbandoned } from "./seal_abandoned.ts";
export { readSpending, type RecordedSpending } from "./spending.ts";
export { renameDamagedIndex, type SessionEntry, SessionIndex } from "./sessions.ts";
export { readOwner, type SealCheck, verifyLedger } from "./verify.ts";
export type { SealSigner, Verification } from "./verify_chain.ts";
