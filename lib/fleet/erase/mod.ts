/** Life of data in a store: erasure of persons and sessions, retention, and export for a data subject. */
export { type Chain, erase, type EraseRequest, type EraseTables, Erasure, type Range } from "./erase.ts";
export { type Exported, exportSubject } from "./export.ts";
export { findSubject, type Subject } from "./subject.ts";
export { applyRetention, readRetention, RetentionFile, type RetentionReport } from "./retention.ts";
