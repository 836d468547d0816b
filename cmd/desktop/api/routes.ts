/** The routes that pages call, with the types of the service's own definitions. */
import type {
  AskAnswer,
  AskList,
  AskRule,
  AskView,
  CostReport,
  CreateRequest,
  CredentialAdd,
  CredentialAudit,
  CredentialList,
  CredentialView,
  DetectionList,
  DetectionStats,
  EvaluateResult,
  EventsResult,
  EvidenceResult,
  ExecRequest,
  ExecResult,
  FileEntry,
  FileList,
  FindingList,
  Job,
  JobList,
  LogsResult,
  McpChange,
  McpChanges,
  McpRefreshed,
  McpServerList,
  McpToolList,
  OverlaySaved,
  PackValidation,
  PolicyContexts,
  Port,
  PortList,
  PortRequest,
  ProfileList,
  RuleList,
  RuleSaved,
  SessionList,
  SettingExplanation,
  SettingsResponse,
  SnapshotDiff,
  SnapshotInfo,
  SnapshotList,
  SnapshotRestored,
  SystemStatus,
  TryRequest,
  TryResult,
  VmAction,
  VmInfo,
  VmSummary,
  WhyResult,
  WorkTake,
  WorkTaken,
  WorkView,
} from "../../../lib/api/schema.ts";
import { call, send } from "./client.ts";

export type Explanation = SettingExplanation;
export type Settings = typeof SettingsResponse["_output"];
export type Evidence = EvidenceResult;
/** A rule that is not saved. */
export type RuleDraft = { rule_id: string; rule: RuleTable };
export type RuleEffect = NonNullable<TryResult["effect"]>;
export type RuleView = RuleList["rules"][number];
/** A rule as it is written; the service checks it. */
export type RuleTable =
  & Pick<
    RuleView,
    "action" | "match" | "enabled" | "detection_level" | "reason" | "ask_timeout" | "rewrite"
  >
  & Partial<Pick<RuleView, "name" | "priority">>;
/** An event of a record, with what was decided. */
export type RecordedEvent = EventsResult["events"][number];
export type {
  AskRule,
  AskView,
  CredentialAdd,
  CredentialView,
  FileEntry,
  McpChange,
  RuleList,
  SnapshotInfo,
  SystemStatus,
  VmAction,
  VmInfo,
  VmSummary,
  WhyResult,
  WorkTake,
  WorkTaken,
  WorkView,
};

const vm = (id: string, rest: string) => `/vms/${encodeURIComponent(id)}/${rest}`;
const profile = (id: string, rest: string) => `/profiles/${encodeURIComponent(id)}/${rest}`;
/** A tool's name as one segment (docs/contracts.md §8, "MCP routes"). */
const tool = (name: string) =>
  encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1").replaceAll("%", "~2"));
const query = (values: Record<string, string | undefined>) => {
  const pairs = Object.entries(values).filter((pair): pair is [string, string] => !!pair[1]);
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
};

export const api = {
  vms: () => call<{ vms: VmSummary[] }>("GET", "/vms/list"),
  vm: (id: string) => call<VmInfo>("GET", vm(id, "info")),
  createVm: (request: CreateRequest) => call<VmSummary>("POST", "/vms/create", request),
  actOnVm: (id: string, action: Exclude<VmAction, "exec" | "shell" | "delete">) =>
    call<VmSummary>("POST", vm(id, action)),
  exec: (id: string, request: ExecRequest) => call<ExecResult>("POST", vm(id, "exec"), request),
  deleteVm: (id: string) => call<unknown>("DELETE", vm(id, "delete")),
  sessions: () => call<SessionList>("GET", "/sessions/list"),
  profiles: () => call<ProfileList>("GET", "/profiles/list"),
  asks: () => call<AskList>("GET", "/asks"),
  resolveAsk: (id: string, answer: AskAnswer) =>
    call<AskView>("POST", `/asks/${encodeURIComponent(id)}/resolve`, answer),
  ruleOfAsk: (id: string) => call<AskRule>("GET", `/asks/${encodeURIComponent(id)}/rule`),
  events: (session: string, conditions: Record<string, string | undefined>) =>
    call<EventsResult>("GET", `/sessions/${encodeURIComponent(session)}/events${query(conditions)}`),
  why: (session: string, event: string) =>
    call<WhyResult>("GET", `/sessions/${encodeURIComponent(session)}/events/${event}/why`),
  settings: () => call<Settings>("GET", "/settings/info"),
  explainSetting: (id: string) => call<Explanation>("GET", `/settings/explain/${encodeURIComponent(id)}`),
  editSettings: (changes: Record<string, unknown>) => call<Settings>("PATCH", "/settings/edit", changes),
  jobs: (id: string) => call<JobList>("GET", vm(id, "jobs")),
  startJob: (id: string, job: { command: string[]; tty?: boolean }) => call<Job>("POST", vm(id, "jobs"), job),
  snapshots: (id: string) => call<SnapshotList>("GET", vm(id, "snapshots/list")),
  createSnapshot: (id: string, label?: string) =>
    call<SnapshotInfo>("POST", vm(id, "snapshots/create"), { label }),
  diff: (id: string, snapshot: string) => call<SnapshotDiff>("GET", vm(id, `snapshots/${snapshot}/diff`)),
  restore: (id: string, snapshot: string, paths?: string[]) =>
    call<SnapshotRestored>("POST", vm(id, `snapshots/${snapshot}/restore`), { paths }),
  undo: (id: string) => call<SnapshotRestored>("POST", vm(id, "snapshots/undo"), {}),
  work: (id: string) => call<WorkView>("GET", vm(id, "work")),
  takeWork: (id: string, request: WorkTake) => call<WorkTaken>("POST", vm(id, "work/take"), request),
  costs: (session: string) => call<CostReport>("GET", `/sessions/${encodeURIComponent(session)}/costs`),
  ports: (id: string) => call<PortList>("GET", vm(id, "ports")),
  openPort: (id: string, request: PortRequest) => call<Port>("POST", vm(id, "ports"), request),
  closePort: (id: string, port: number) => call<Port>("DELETE", vm(id, `ports/${port}`)),
  logs: (id: string) => call<LogsResult>("GET", vm(id, "logs")),
  files: (id: string, path: string) =>
    call<FileList>("GET", vm(id, `files/list${query({ path, depth: "1" })}`)),
  file: (id: string, path: string) => send("GET", vm(id, `files/content${query({ path })}`)),
  findings: (session: string) =>
    call<FindingList>("GET", `/sessions/${encodeURIComponent(session)}/findings?limit=1000`),
  rules: (id: string) => call<RuleList>("GET", profile(id, "enforcement/rules/list")),
  putRule: (id: string, rule: string, table: RuleTable) =>
    call<RuleSaved>("PUT", profile(id, `enforcement/rules/${encodeURIComponent(rule)}`), table),
  deleteRule: (id: string, rule: string) =>
    call<unknown>("DELETE", profile(id, `enforcement/rules/${encodeURIComponent(rule)}`)),
  reloadRules: (id: string) => call<unknown>("POST", vm(id, "policy/reload")),
  tryRule: (id: string, request: RuleDraft & Pick<TryRequest, "session">) =>
    call<TryResult>("POST", profile(id, "enforcement/rules/try"), request),
  evaluate: (id: string, event: unknown, draft?: RuleDraft) =>
    call<EvaluateResult>("POST", profile(id, "enforcement/evaluate"), { event, draft }),
  detections: () => call<DetectionList>("GET", "/detection"),
  detectionStats: () => call<DetectionStats>("GET", "/detection/stats"),
  addDetection: (overlay: Record<string, unknown>) => call<OverlaySaved>("POST", "/detection", overlay),
  removeDetection: (id: string) => call<unknown>("DELETE", `/detection/${encodeURIComponent(id)}`),
  validatePack: (pack: Record<string, unknown>) => call<PackValidation>("POST", "/detection/validate", pack),
  contexts: (session: string, conditions: Record<string, string | undefined>) =>
    call<PolicyContexts>(
      "GET",
      `/sessions/${encodeURIComponent(session)}/policy-contexts${query(conditions)}`,
    ),
  backtest: (request: Record<string, unknown>) => call<Evidence>("POST", "/detection/backtest", request),
  hunt: (session: string, detections: Record<string, unknown>) =>
    call<Evidence>("POST", `/sessions/${encodeURIComponent(session)}/detection/hunt`, detections),
  mcpServers: (id: string) => call<McpServerList>("GET", profile(id, "mcp/servers/list")),
  mcpTools: (id: string, server: string) =>
    call<McpToolList>("GET", profile(id, `mcp/servers/${encodeURIComponent(server)}/tools/list`)),
  mcpChanges: (id: string) => call<McpChanges>("GET", profile(id, "mcp/changes")),
  refreshMcp: (id: string, server: string) =>
    call<McpRefreshed>("POST", profile(id, `mcp/servers/${encodeURIComponent(server)}/refresh`)),
  approveMcp: (id: string, server: string, name: string) =>
    call<McpChange>(
      "POST",
      profile(id, `mcp/servers/${encodeURIComponent(server)}/tools/${tool(name)}/approve`),
    ),
  credentials: () => call<CredentialList>("GET", "/credentials/list"),
  addCredential: (credential: CredentialAdd) => call<CredentialView>("POST", "/credentials/add", credential),
  revokeCredential: (ref: string) =>
    call<CredentialView>("DELETE", `/credentials/${encodeURIComponent(ref)}`),
  credentialAudit: (conditions: Record<string, string | undefined>) =>
    call<CredentialAudit>("GET", `/credentials/audit${query(conditions)}`),
  status: () => call<SystemStatus>("GET", "/system/status"),
  checkUpdate: () => call<unknown>("POST", "/update/check"),
};
