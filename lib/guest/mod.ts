/** The wire between sbx-process and the guest's agent (contracts.md §7). */
export * from "./messages.ts";
export { BOOT_FILE_MODE, type BootFile, checkBootConfig } from "./limit.ts";
export { type ExecRequest, type ExecStreams, GuestLink } from "./link.ts";
export { Terminal, type Viewer } from "./terminal.ts";
