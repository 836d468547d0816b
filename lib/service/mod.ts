/** The service of one home: the life of its VMs, their contracts, asks, records and credentials. */
export { ActiveDetections } from "./contract/active_detections.ts";
export type { Bin } from "./vm/bin.ts";
export { AskInbox } from "./contract/asks.ts";
export { budgetsOf } from "./contract/active_profiles.ts";
export { giveChosenFiles, giveKeyFiles, giveLoginFiles, type GivenVm } from "./contract/login_files.ts";
export { HostLogins } from "./contract/logins.ts";
export { dotEnvWithoutSecrets, isDotEnv } from "./contract/credentials.ts";
export { signingCredential } from "./contract/signing.ts";
export { addedProviders, providerViews } from "./contract/providers.ts";
export { credentialView, isShown, newCredential, usersOf, vmsWith } from "./contract/credentials.ts";
export { Loans } from "./contract/loans.ts";
export { auditCredentials, type AuditedSession } from "./contract/credential_audit.ts";
export { type GrantedVm, grantedVms } from "./contract/labels.ts";
export { sshTerms } from "./contract/ssh.ts";
export { execBuffered, execPiped, execStreamed, type Pipes, type Send, type Trace } from "./run/exec.ts";
export {
  findJob,
  listJobs,
  listServices,
  orderService,
  readJobLogs,
  requireTerminal,
  startJob,
  stopJob,
  streamJobLogs,
} from "./run/jobs.ts";
export type { HostRecords } from "./record/host_record.ts";
export type { EventFeeds } from "./record/event_feed.ts";
export { FindingTriage } from "./record/finding_triage.ts";
export { listFindings } from "./record/ledger.ts";
export { waitForEvents } from "./record/waiting.ts";
export { SecretPrograms } from "./contract/secret_programs.ts";
export { ProfilesInForce } from "./contract/active_profiles.ts";
export {
  contextsOf,
  eventsOf,
  explainEvent,
  flushRecord,
  flushRecords,
  type LedgerFinder,
  ledgerFinder,
  sessionEvents,
  sessionHistory,
} from "./record/ledger.ts";
export { ruleDigest, ruleOfAsk } from "./contract/rules.ts";
export { type TriedOn, tryDraft } from "./contract/trial.ts";
export {
  asksAcross,
  chooseSessions,
  costsAcross,
  countAcross,
  findingsAcross,
  hitsAcross,
  isChosen,
  mayHave,
  overviewOf,
  readAcross,
  type RecordedSession,
  type SessionChoice,
} from "./record/across/mod.ts";
export { makeReport } from "./record/report/mod.ts";
export { diskUseOf } from "./record/disk_use.ts";
export { removeLoginStart } from "./login_start.ts";
export { collectGarbage } from "./garbage.ts";
export { takeLock } from "./service.ts";
export { readLogs } from "./health/status.ts";
export { ProfileMcp } from "./contract/mcp.ts";
export { SecurityReport } from "./health/status.ts";
export { ServiceMetrics } from "./health/metrics.ts";
export { listFolders, requireFolder } from "./folders.ts";
export { type Notice, Notices } from "./notice.ts";
export { ContractRefresh } from "./contract/refresh.ts";
export { findChange } from "./contract/rules.ts";
export { Rules } from "./contract/rules.ts";
export { OneOffVm } from "./run/one_off.ts";
export { type Configuration, Service } from "./service.ts";
export { Updates } from "./updates.ts";
export { removeSession } from "./record/removal.ts";
export { Sessions } from "./record/sessions.ts";
export type { Witnesses } from "./record/witness.ts";
export { Snapshots } from "./run/snapshots.ts";
export { States } from "./run/states.ts";
export { ReleaseStanding } from "./contract/publisher_status.ts";
export { StatusReport } from "./health/status.ts";
export { liveState } from "./health/status.ts";
export { Supervisor } from "./vm/supervisor.ts";
export { comesBack } from "./vm/suspension.ts";
export { actionsOf, type Vm, workOf } from "./vm/vm.ts";
export { type FileParts, isGuestPath, VmFiles } from "./run/transfer.ts";
export { templateFor } from "./vm/boot.ts";
export { bringFolder, readPatch, readWork, takeWork } from "./run/work.ts";
export { projectRules } from "./contract/project.ts";
export { relativePath } from "./run/workspace.ts";
export { type Asked, AskedOnce } from "./vm/asked.ts";
export type { Registry } from "./vm/registry.ts";
