/** Wire between sbx-process and the guest (docs/contracts.md §7), and its end on the host. */
export * from "./wire/mod.ts";
export { type GuestBoot, GuestLink, type ShellState, type TerminalProgram, TERMINALS_MAX } from "./link.ts";
export type { ExecRequest, ExecResult, ExecStreams } from "./program.ts";
export { Terminal, type Viewer } from "./terminal.ts";
