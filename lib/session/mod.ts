/** Sessions: one session is one life of one VM. */
export type { ExecOutcome, ProgramStreams, TerminalRequest } from "./exec.ts";
export * from "./files/mod.ts";
export { type Granted, grantOf, hostRefsOf } from "./grant.ts";
export { PAUSED_HINT } from "./health.ts";
export { loadAhead } from "./session.ts";
export { Session } from "./session.ts";
export {
  discard as discardSuspended,
  discardUnfinished,
  isSuspended,
  type MemoryOrigin,
  readOrigin,
} from "./suspend.ts";
export { heldBack, readHoldSync } from "./response.ts";
export { SpareMachine } from "./spare.ts";
export type {
  BootStatement,
  ClockStatement,
  ContractStatement,
  ImageStatement,
  LimitStatement,
  SessionStatement,
} from "./statement.ts";
export type { HostFile } from "./file_event.ts";
export type { FileDecision, FileRequest } from "./session_gate.ts";
export { hasEnded } from "./report.ts";
