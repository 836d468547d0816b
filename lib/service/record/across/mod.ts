/** Questions over the records of all sessions of a home */
export { findingsAcross } from "./findings.ts";
export { type AcrossEvent, type AcrossPage, mayHave, readAcross, type RecordedSession } from "./merge.ts";
export { chooseSessions, type SessionChoice } from "./select.ts";
