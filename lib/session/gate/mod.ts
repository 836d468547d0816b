/** The gate of a session: event → decision → ledger → effect (docs/design/contracts/05-policy.md §5). */
export { SessionGate } from "./gate.ts";
export type { GateOptions, Recorder, SessionNotice } from "./gate.ts";
export type { EventHold, HeldBack } from "./held.ts";
export { withdrawAnswer } from "./withdrawal.ts";
