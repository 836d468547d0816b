/**
 * A person's own configuration of an agent, into its VM: shown, asked about, without
 * secrets (docs/guides/agents.md).
 */
export { type Approval, approvalPath, forgetApproval, readApproval, writeApproval } from "./approval.ts";
export {
  findHistory,
  historyBytes,
  keepHistory,
  type KeptHistory,
  listHistories,
  removeHistory,
} from "./history.ts";
export { NO_HISTORY, PACK_HISTORY, UNPACK_HISTORY } from "./history_script.ts";
export { FILES_MAX, HISTORY_MAX } from "./limit.ts";
export type { HostPath } from "./path.ts";
export type { SetupProgram } from "./program.ts";
export type { FoundSecret, RefOf } from "./secret.ts";
export { type GuestFile, Setup, type SetupFile } from "./setup.ts";
export { type LeftOut, movedPlaces } from "./source.ts";
