/** Questions over the records of all sessions of a home */
export { asksAcross } from "./asks.ts";
export { costsAcross } from "./costs.ts";
export { countAcross } from "./counts.ts";
export { findingsAcross } from "./findings.ts";
export { hitsAcross } from "./hits.ts";
export { type AcrossEvent, type AcrossPage, mayHave, readAcross, type RecordedSession } from "./merge.ts";
export { overviewOf, type OverviewTerms } from "./overview.ts";
export { chooseSessions, isChosen, type SessionChoice } from "./select.ts";
