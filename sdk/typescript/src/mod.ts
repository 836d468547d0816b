/** VMs of sbx from programs: sandboxes under policy and record (docs/guides/sdk.md). */
export { type ConnectOptions } from "./address.ts";
export { type AskCallback, AskHandler } from "./asks.ts";
export { Client } from "./client.ts";
export { ProgramError, SbxError } from "./error.ts";
export { type ExecOptions, type ExecResult, type Output, Program, type ProgramOptions } from "./program.ts";
export { Pty } from "./pty.ts";
export { type CreateOptions, Files, type On, Ports, Sandbox, type UnitPatch } from "./sandbox.ts";
export type {
  Ask,
  AskAnswer,
  Budget,
  Costs,
  EventQuery,
  FileEntry,
  Port,
  RepositoryBrought,
  SbxEvent,
  SignedCertificate,
  Snapshot,
  SnapshotRestored,
  VmInfo,
  VmListed,
  VmStatus,
  Why,
} from "./shapes.ts";
export { API_VERSION, SDK_VERSION } from "./version.ts";
