/** The routes that pages call, with the types of the service's own definitions. */
import type {
  Answer,
  AskAnswer,
  AskResolve,
  AskRule,
  AskView,
  Body,
  CreateRequest,
  CredentialAdd,
  CredentialView,
  EventsQuery,
  EvidenceResult,
  ExecRequest,
  FileEntry,
  McpChange,
  Method,
  PathOf,
  PortRequest,
  Query,
  RouteAt,
  RuleChangeView,
  RuleList,
  SettingExplanation,
  SettingsResponse,
  SnapshotInfo,
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
} from "../../../lib/client/api/schema.ts";
import type { DecidedEvent } from "../../../lib/event/mod.ts";
import { addressOf } from "./address.ts";
import { ask, send, submit } from "./client.ts";

export type Settings = typeof SettingsResponse["_output"];
/** A decision by which events are selected. */
export type FinalDecision = NonNullable<typeof EventsQuery["_output"]["decision"]>;
/** A rule that is not saved. */
export type RuleDraft = { rule_id: string; rule: RuleTable };
export type RuleEffect = NonNullable<TryResult["effect"]>;
export type RuleView = RuleList["rules"][number];
/** A rule as written by a person; the service checks it. */
export type RuleTable =
  & Pick<
    RuleView,
    "action" | "match" | "enabled" | "detection_level" | "reason" | "ask_timeout" | "protocol" | "rewrite"
  >
  & Partial<Pick<RuleView, "name" | "priority">>;
/** An event of a record with its decision and, where it has one, its outcome. */
export type RecordedEvent = DecidedEvent & { outcome?: { duration_ms?: number } };
/** The decision record of an event. */
export type Explained = Omit<WhyResult, "event"> & { event: RecordedEvent };
export type { RuleChangeView };
/** A recorded change of a rule or of a detection. */
export type Change = Answer<RouteAt<"GET", "/enforcement/changes">>["changes"][number];
export type DetectionList = Answer<RouteAt<"GET", "/detection">>;
export type {
  AskAnswer,
  AskRule,
  AskView,
  CredentialAdd,
  CredentialView,
  EvidenceResult,
  FileEntry,
  McpChange,
  RuleList,
  SettingExplanation,
  SnapshotInfo,
  SystemStatus,
  VmAction,
  VmInfo,
  VmSummary,
  WorkTake,
  WorkTaken,
  WorkView,
};

/** A VM in a list; one made since the list was loaded has no work yet. */
export type VmListed = VmSummary & Partial<Answer<RouteAt<"GET", "/vms/list">>["vms"][number]>;
export type Login = Answer<RouteAt<"GET", "/logins/list">>["logins"][number];
export type LoginOffer = Answer<RouteAt<"GET", "/logins/list">>["offers"][number];
export type LoginWaiting = Answer<RouteAt<"POST", "/logins/{id}">>;
export type Provider = Answer<RouteAt<"GET", "/credentials/providers">>["providers"][number];
export type Image = Answer<RouteAt<"GET", "/images/list">>["images"][number];
export type Task = Answer<RouteAt<"GET", "/tasks">>["tasks"][number];
export type Agent = Answer<RouteAt<"GET", "/agents/list">>["agents"][number];
/** A check of this machine. */
export type HostCheck = Answer<RouteAt<"GET", "/system/doctor">>["checks"][number];
export type FindingStateChange = BodyOf<"POST", "/sessions/{id}/findings/state">["state"];
export type AskInForce = Answer<RouteAt<"GET", "/asks/in-force">>["asks"][number];
export type PastAsk = Answer<RouteAt<"GET", "/asks/history">>["asks"][number];
export type ListedFinding = Answer<RouteAt<"GET", "/sessions/{id}/findings">>["findings"][number];

/** A page of a record. The service declares its events as objects of any fields. */
type EventPage = Omit<Answer<RouteAt<"GET", "/sessions/{id}/events">>, "events"> & {
  events: RecordedEvent[];
};

/** A page of the records of all sessions; each event names its VM. */
type AcrossPage = Omit<Answer<RouteAt<"GET", "/sessions/events">>, "events"> & {
  events: (RecordedEvent & { vm: string })[];
};

type OverviewAnswer = Answer<RouteAt<"GET", "/sessions/overview">>;
/** The overview of a home; a VM without an event has no last one. */
export type OverviewOf = Omit<OverviewAnswer, "vms"> & {
  vms: (Omit<OverviewAnswer["vms"][number], "last"> & { last?: RecordedEvent })[];
};

/** A tool's name as one segment (docs/design/contracts/08-mcp.md §8, "MCP routes"). */
const toolName = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1").replaceAll("%", "~2");

type Conditions<P extends PathOf<"GET">> = Query<RouteAt<"GET", P>>;
type BodyOf<M extends Method, P extends PathOf<M>> = Body<RouteAt<M, P>>;

type VmVerb = Exclude<VmAction, "exec" | "shell" | "delete">;

/** A document that a person wrote; the service checks it. */
type Written = Record<string, unknown>;
type Evaluated = BodyOf<"POST", "/profiles/{id}/enforcement/evaluate">;

/** The calls of pages, by subject. The service leaves the fields of events open: their answers are cast. */
export const api = {
  // VMs

  vms: () => ask("GET", "/vms/list", {}),
  vm: (id: string) => ask("GET", "/vms/{id}/info", { id }),
  createVm: (request: CreateRequest) => submit("POST", "/vms/create", {}, request),
  actOnVm: (id: string, action: VmVerb) => ask("POST", `/vms/{id}/${action}`, { id }),
  lift: (id: string) => ask("POST", "/vms/{id}/lift", { id }),
  exec: (id: string, request: ExecRequest) => submit("POST", "/vms/{id}/exec", { id }, request),
  deleteVm: (id: string, force: boolean) =>
    ask("DELETE", "/vms/{id}/delete", { id }, { force: force ? "true" : "false" }),
  logs: (id: string) => ask("GET", "/vms/{id}/logs", { id }),

  // Programs, ports and files of a VM

  jobs: (id: string) => ask("GET", "/vms/{id}/jobs", { id }),
  startJob: (id: string, job: BodyOf<"POST", "/vms/{id}/jobs">) =>
    submit("POST", "/vms/{id}/jobs", { id }, job),
  stopJob: (id: string, job: string) => ask("POST", "/vms/{id}/jobs/{job}/stop", { id, job }),
  ports: (id: string) => ask("GET", "/vms/{id}/ports", { id }),
  openPort: (id: string, request: PortRequest) => submit("POST", "/vms/{id}/ports", { id }, request),
  closePort: (id: string, port: number) =>
    ask("DELETE", "/vms/{id}/ports/{port}", { id, port: String(port) }),
  files: (id: string, path: string) => ask("GET", "/vms/{id}/files/list", { id }, { path, depth: "1" }),
  file: (id: string, path: string) =>
    send("GET", addressOf("GET", "/vms/{id}/files/content", { id }, { path })),

  // Snapshots and work of a VM

  snapshots: (id: string) => ask("GET", "/vms/{id}/snapshots/list", { id }),
  createSnapshot: (id: string, label?: string) =>
    submit("POST", "/vms/{id}/snapshots/create", { id }, { label }),
  diff: (id: string, snapshot: string) => ask("GET", "/vms/{id}/snapshots/{snapshot}/diff", { id, snapshot }),
  restore: (id: string, snapshot: string, paths?: string[]) =>
    submit("POST", "/vms/{id}/snapshots/{snapshot}/restore", { id, snapshot }, { paths }),
  undo: (id: string) => submit("POST", "/vms/{id}/snapshots/undo", { id }, {}),
  work: (id: string) => ask("GET", "/vms/{id}/work", { id }),
  takeWork: (id: string, request: WorkTake) => submit("POST", "/vms/{id}/work/take", { id }, request),

  // Asks

  asks: () => ask("GET", "/asks", {}),
  resolveAsk: (id: string, answer: AskResolve) => submit("POST", "/asks/{id}/resolve", { id }, answer),
  ruleOfAsk: (id: string, reach: Conditions<"/asks/{id}/rule"> = {}) =>
    ask("GET", "/asks/{id}/rule", { id }, reach),
  asksInForce: () => ask("GET", "/asks/in-force", {}),
  withdrawAnswer: (id: string) => ask("DELETE", "/asks/in-force/{id}", { id }),
  pastAsks: (conditions: Conditions<"/asks/history">) => ask("GET", "/asks/history", {}, conditions),

  // Records

  sessions: () => ask("GET", "/sessions/list", {}),
  events: async (id: string, conditions: Conditions<"/sessions/{id}/events">) =>
    await ask("GET", "/sessions/{id}/events", { id }, conditions) as unknown as EventPage,
  eventsAcross: async (conditions: Conditions<"/sessions/events">) =>
    await ask("GET", "/sessions/events", {}, conditions) as unknown as AcrossPage,
  counts: (conditions: Conditions<"/sessions/events/counts">) =>
    ask("GET", "/sessions/events/counts", {}, conditions),
  overview: async (conditions: Conditions<"/sessions/overview">) =>
    await ask("GET", "/sessions/overview", {}, conditions) as unknown as OverviewOf,
  why: async (id: string, event_id: string) =>
    await ask("GET", "/sessions/{id}/events/{event_id}/why", { id, event_id }) as unknown as Explained,
  contexts: (id: string, conditions: Conditions<"/sessions/{id}/policy-contexts">) =>
    ask("GET", "/sessions/{id}/policy-contexts", { id }, conditions),
  costs: (id: string) => ask("GET", "/sessions/{id}/costs", { id }),
  costsAcross: (conditions: Conditions<"/sessions/costs">) => ask("GET", "/sessions/costs", {}, conditions),
  certificate: (id: string) => ask("GET", "/sessions/{id}/certificate", { id }),
  verify: (id: string) => ask("GET", "/sessions/{id}/verify", { id }),

  // Findings and detections

  findings: (id: string, cursor?: string) =>
    ask("GET", "/sessions/{id}/findings", { id }, { limit: "200", order: "newest", cursor }),
  findingsAcross: (conditions: Conditions<"/sessions/findings">) =>
    ask("GET", "/sessions/findings", {}, conditions),
  changeFindings: (id: string, findings: string[], state: FindingStateChange) =>
    submit("POST", "/sessions/{id}/findings/state", { id }, { findings, state }),
  exceptFinding: (id: string, exception: BodyOf<"POST", "/sessions/{id}/findings/except">) =>
    submit("POST", "/sessions/{id}/findings/except", { id }, exception),
  findingExceptions: () => ask("GET", "/findings/exceptions", {}),
  removeException: (id: string) => ask("DELETE", "/findings/exceptions/{id}", { id }),
  detections: () => ask("GET", "/detection", {}),
  detectionStats: () => ask("GET", "/detection/stats", {}),
  addDetection: (overlay: Written) =>
    submit("POST", "/detection", {}, overlay as BodyOf<"POST", "/detection">),
  switchDetection: (id: string, change: BodyOf<"POST", "/detection/rules/{id}/switch">) =>
    submit("POST", "/detection/rules/{id}/switch", { id }, change),
  removeDetection: (id: string) => ask("DELETE", "/detection/{id}", { id }),
  validatePack: (pack: Written) => submit("POST", "/detection/validate", {}, pack),
  backtest: (request: Written) =>
    submit("POST", "/detection/backtest", {}, request as BodyOf<"POST", "/detection/backtest">),
  hunt: (id: string, detections: Written) =>
    submit(
      "POST",
      "/sessions/{id}/detection/hunt",
      { id },
      detections as BodyOf<"POST", "/sessions/{id}/detection/hunt">,
    ),

  // Profiles and rules

  profiles: () => ask("GET", "/profiles/list", {}),
  rules: (id: string) => ask("GET", "/profiles/{id}/enforcement/rules/list", { id }),
  rule: (id: string, rule_id: string) =>
    ask("GET", "/profiles/{id}/enforcement/rules/{rule_id}", { id, rule_id }),
  ruleHits: (id: string, since: number) =>
    ask("GET", "/profiles/{id}/enforcement/hits", { id }, { since: String(since) }),
  createRule: (id: string, draft: RuleDraft) =>
    submit("POST", "/profiles/{id}/enforcement/rules/create", { id }, draft),
  /** @param digest of the rule that was read; another one is not replaced */
  putRule: (id: string, rule_id: string, table: RuleTable, digest: string | undefined) =>
    submit("PUT", "/profiles/{id}/enforcement/rules/{rule_id}", { id, rule_id }, table, { digest }),
  deleteRule: (id: string, rule_id: string, digest: string | undefined) =>
    ask("DELETE", "/profiles/{id}/enforcement/rules/{rule_id}", { id, rule_id }, { digest }),
  tryRule: (id: string, request: TryRequest) =>
    submit("POST", "/profiles/{id}/enforcement/rules/try", { id }, request),
  evaluate: (id: string, event: Evaluated["event"], draft?: RuleDraft) =>
    submit("POST", "/profiles/{id}/enforcement/evaluate", { id }, { event, draft }),
  reloadRules: (id: string) => ask("POST", "/vms/{id}/policy/reload", { id }),
  changes: (profile?: string) => ask("GET", "/enforcement/changes", {}, { profile, limit: "50" }),
  undoChange: (change_id: string) => ask("POST", "/enforcement/changes/{change_id}/undo", { change_id }),

  // MCP servers of a profile

  mcpServers: (id: string) => ask("GET", "/profiles/{id}/mcp/servers/list", { id }),
  mcpTools: (id: string, sid: string) =>
    ask("GET", "/profiles/{id}/mcp/servers/{sid}/tools/list", { id, sid }),
  mcpChanges: (id: string) => ask("GET", "/profiles/{id}/mcp/changes", { id }),
  refreshMcp: (id: string, sid: string) =>
    ask("POST", "/profiles/{id}/mcp/servers/{sid}/refresh", { id, sid }),
  loginMcp: (id: string, sid: string) =>
    submit("POST", "/profiles/{id}/mcp/servers/{sid}/login", { id, sid }, {}),
  mcpLogin: (id: string, sid: string) => ask("GET", "/profiles/{id}/mcp/servers/{sid}/login", { id, sid }),
  logoutMcp: (id: string, sid: string) => ask("POST", "/profiles/{id}/mcp/servers/{sid}/logout", { id, sid }),
  approveMcp: (id: string, sid: string, name: string, after_hash: string) =>
    submit("POST", "/profiles/{id}/mcp/servers/{sid}/tools/{tid}/approve", { id, sid, tid: toolName(name) }, {
      after_hash,
    }),

  // Credentials and logins

  credentials: () => ask("GET", "/credentials/list", {}),
  credentialProviders: () => ask("GET", "/credentials/providers", {}),
  credentialAudit: (conditions: Conditions<"/credentials/audit">) =>
    ask("GET", "/credentials/audit", {}, conditions),
  addCredential: (credential: CredentialAdd) => submit("POST", "/credentials/add", {}, credential),
  revokeCredential: (ref: string) => ask("DELETE", "/credentials/{ref}", { ref }),
  logins: () => ask("GET", "/logins/list", {}),
  beginLogin: (id: string, request: BodyOf<"POST", "/logins/{id}">) =>
    submit("POST", "/logins/{id}", { id }, request),
  loginCode: (id: string, code: BodyOf<"POST", "/logins/{id}/code">) =>
    submit("POST", "/logins/{id}/code", { id }, code),
  loginState: (id: string, label: string | undefined, attempt: string) =>
    ask("GET", "/logins/{id}", { id }, { label, attempt }),
  keepLogin: (id: string, kept: BodyOf<"POST", "/logins/{id}/keep">) =>
    submit("POST", "/logins/{id}/keep", { id }, kept),
  logout: (id: string, label: string | undefined) => ask("DELETE", "/logins/{id}", { id }, { label }),

  // Images, environments and tasks

  images: () => ask("GET", "/images/list", {}),
  obom: async (id: string) => await send("GET", addressOf("GET", "/profiles/{id}/obom", { id })),
  buildImage: (profile: string) => ask("POST", "/images/{profile}/build", { profile }),
  removeImage: (profile: string) => ask("DELETE", "/images/{profile}", { profile }),
  pruneImages: () => ask("POST", "/images/prune", {}),
  environments: () => ask("GET", "/environments", {}),
  removeEnvironment: (image: string) => ask("DELETE", "/environments", {}, { image }),
  collectEnvironments: () => ask("POST", "/environments/gc", {}),
  tasks: () => ask("GET", "/tasks", {}),
  cancelTask: (id: string) => ask("DELETE", "/tasks/{id}", { id }),

  // Agents

  agents: () => ask("GET", "/agents/list", {}),
  startAgent: (id: string, request: BodyOf<"POST", "/agents/{id}/start">) =>
    submit("POST", "/agents/{id}/start", { id }, request),
  folders: (path: string) => ask("GET", "/folders", {}, { path }),

  // This installation

  settings: () => ask("GET", "/settings/info", {}),
  explainSetting: (id: string) => ask("GET", "/settings/explain/{id}", { id }),
  editSettings: (changes: BodyOf<"PATCH", "/settings/edit">) =>
    submit("PATCH", "/settings/edit", {}, changes),
  status: () => ask("GET", "/system/status", {}),
  doctor: () => ask("GET", "/system/doctor", {}),
  mend: () => ask("POST", "/system/doctor/fix", {}),
  debugReport: () => ask("GET", "/debug/report", {}),
  checkUpdate: () => ask("POST", "/update/check", {}),
};
