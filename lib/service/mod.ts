/** The service of one home: the life of its VMs, their contracts, asks, records and credentials. */
export { ActiveDetections } from "./active_detections.ts";
export type { Bin } from "./bin.ts";
export { checkBundle } from "./bundles.ts";
export { AskInbox } from "./asks.ts";
export { budgetsOf } from "./budgets.ts";
export { dotEnvWithoutSecrets, isDotEnv } from "./captured.ts";
export { corpLayer, profileLayer, profileProblems } from "./contract.ts";
export { auditCredentials, credentialView, newCredential } from "./credentials.ts";
export { execBuffered, execPiped, execStreamed, type Pipes, type Send, type Trace } from "./exec.ts";
export { findJob, listJobs, readJobLogs, requireTerminal, startJob, stopJob, streamJobLogs } from "./jobs.ts";
export { listFindings } from "./findings.ts";
export { ProfilesInForce } from "./in_force.ts";
export {
  contextsOf,
  eventsOf,
  explainEvent,
  type LedgerFinder,
  ledgerFinder,
  sessionEvents,
  sessionHistory,
} from "./ledger.ts";
export { ruleOfAsk, tryDraft } from "./rule_draft.ts";
export { type ChannelUpdate, updateFromChannel, updatePins, updateProgram } from "./channel_update.ts";
export { openCorp, useNetworkOf } from "./host_network.ts";
export { updateAll, type UpdateReport, type UpdateResult } from "./update_all.ts";
export { takeLock } from "./lock.ts";
export { readLogs } from "./logs.ts";
export { ProfileMcp } from "./mcp.ts";
export { SecurityReport } from "./security.ts";
export { ServiceMetrics } from "./metrics.ts";
export { type Notice, Notices } from "./notice.ts";
export { ContractRefresh } from "./refresh.ts";
export { findChange } from "./rule_record.ts";
export { Rules } from "./rules.ts";
export { OneOffVm } from "./run.ts";
export { type Configuration, Service } from "./service.ts";
export { Updates } from "./updates.ts";
export { Sessions } from "./sessions.ts";
export { Snapshots } from "./snapshots.ts";
export { ReleaseStanding } from "./standing.ts";
export { StatusReport } from "./status.ts";
export { liveState } from "./live_state.ts";
export { Supervisor } from "./supervisor.ts";
export { comesBack } from "./suspension.ts";
export { checkCorp, checkSetting } from "./value_check/mod.ts";
export { actionsOf, type Vm } from "./vm.ts";
export { type FileParts, isGuestPath, VmFiles } from "./transfer.ts";
export { templateFor } from "./template_for.ts";
export { readWork, takeWork } from "./work.ts";
