/** Sessions: one session is one life of one VM. */
export { makeSockets, type SessionPaths, sessionPaths } from "./paths.ts";
export { readRecord, readState, VmRecord, writeRecord, writeState } from "./record.ts";
export type { Recorded } from "./recorder.ts";
export { type ExecOutcome, Runner } from "./runner.ts";
