/** Sessions: one session is one life of one VM. */
export type { ExecOutcome, ProgramStreams, TerminalRequest } from "./exec.ts";
export * from "./files/mod.ts";
export { PAUSED_HINT } from "./health.ts";
export { loadAhead } from "./ahead.ts";
export { Session } from "./session.ts";
export { discard as discardSuspended, discardUnfinished, isSuspended } from "./suspend.ts";
export { fileDraft } from "./file_event.ts";
export { SpareMachine } from "./spare.ts";
export { hasEnded } from "./report.ts";
