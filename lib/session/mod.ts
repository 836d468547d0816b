/** Sessions: one session is one life of one VM. */
export { makeSockets, pinsPath, type SessionPaths, sessionPaths } from "./files/paths.ts";
export { readRecord, readState, VmRecord, writeRecord, writeState } from "./files/record.ts";
export { type Contract, detectionsOf, type OnFull, readContract, writeContract } from "./files/contract.ts";
export type { Finding, SessionNotice } from "./gate.ts";
export { type ExecOutcome, Runner } from "./runner.ts";
