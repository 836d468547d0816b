/**
 * Wire between sbx-process and the guest (docs/design/contracts/07-guest-wire.md §7), and its end on the
 * host.
 */
export * from "./wire/mod.ts";
export { type GuestBoot, GuestLink, type GuestState, TERMINALS_MAX } from "./link.ts";
export type { ActivityFrame } from "./schema.ts";
export type { ExecRequest, ExecResult, ExecStreams, KeptProgram } from "./program.ts";
export { type ShellState, Terminal, type TerminalProgram, type Viewer } from "./terminal.ts";
