/**
 * Messages between sbx-service and the sbx-process of a VM (docs/design/contracts/07-guest-wire.md §7). Each
 * call has a connection of its own, and so its own back-pressure and its own end. A VM's process loads this
 * before it answers: only light schemas here.
 */
import { z } from "zod";
import { ProgramLimits, ReachedLimit } from "../../machine/limit/schema.ts";
import { BudgetUse } from "../../policy/budget/schema.ts";
import { Heads } from "../../ledger/witness/schema.ts";
import { JobId, JobRecord } from "../job/schema.ts";
import { RuleCounter } from "../../detection/match/schema.ts";
import { Hold } from "../../detection/response/schema.ts";
import { ServerStatus, ToolEntry } from "../../mcp/schema.ts";
import { PortNumber, PortRecord } from "../forward/schema.ts";
import { AnsweredBy, Ask, AskAnswer, AskInForce, AskShown } from "../../policy/ask/schema.ts";

/** Version of this wire; both sides send theirs first. */
export const IPC_VERSION = 1;
/** Most `bytes` of a frame of the process: a result of an MCP tool is the longest. */
export const REPLY_FRAME_LIMIT = 4 * 1024 * 1024 + 64 * 1024;

const Env = z.record(z.string(), z.string());
/** Trace that the caller's request claims. */
const TraceId = z.string().optional();
const size = { cols: z.int().min(1).max(1000), rows: z.int().min(1).max(1000) };

export const Hello = z.strictObject({ t: z.literal("Hello"), version: z.int(), schema_hash: z.string() });

/** A stdio MCP server that needs a VM; `program` distinguishes the server's programs over time. */
export const McpNeed = z.strictObject({ server: z.string(), program: z.string() });
export type McpNeed = z.infer<typeof McpNeed>;

/** First frame after the greeting. */
export const Call = z.discriminatedUnion("t", [
  z.strictObject({
    t: z.literal("Boot"),
    accelerator: z.enum(["kvm", "tcg", "vz"]),
    start: z.discriminatedUnion("from", [
      z.strictObject({ from: z.literal("kernel"), why: z.string() }),
      z.strictObject({ from: z.literal("template"), dir: z.string() }),
      /** with its memory from disk, `by` a resume or a fork; `why`, in words, if it was not ordered */
      z.strictObject({
        from: z.literal("suspended"),
        by: z.enum(["resume", "fork"]),
        why: z.string().optional(),
      }),
    ]),
  }),
  /** the state and its changes, until it ends */
  z.strictObject({ t: z.literal("Watch") }),
  z.strictObject({ t: z.literal("Info") }),
  z.strictObject({
    t: z.literal("Exec"),
    argv: z.array(z.string()).min(1),
    cwd: z.string().optional(),
    user: z.string().optional(),
    env: Env.optional(),
    timeout_ms: z.number().positive().optional(),
    /** `bytes` kept of each stream; the rest is dropped and sets `truncated` */
    limit: z.int().optional(),
    stdin: z.boolean(),
    /** of this program, beside its VM's */
    limits: ProgramLimits.optional(),
    /** the caller gets acknowledgements of consumed input */
    acks: z.boolean().optional(),
    /** sbx reads the VM's work for a person: no event, where no rule stops it */
    look: z.literal(true).optional(),
    /** sbx's own program for repositories and folders; its events have the label */
    repository: z.enum(["bring", "read"]).optional(),
    trace_id: TraceId,
  }),
  z.strictObject({
    t: z.literal("Terminal"),
    argv: z.array(z.string()).min(1).optional(),
    /** the terminal of a job; without `argv` */
    job: JobId.optional(),
    trace_id: TraceId,
    ...size,
  }),
  z.strictObject({ t: z.literal("Ports") }),
  z.strictObject({
    t: z.literal("PortOpen"),
    guest_port: PortNumber,
    host_port: PortNumber.optional(),
    client: z.string(),
    trace_id: TraceId,
  }),
  z.strictObject({
    t: z.literal("PortClose"),
    guest_port: PortNumber,
    client: z.string(),
    trace_id: TraceId,
  }),
  z.strictObject({ t: z.literal("Jobs") }),
  z.strictObject({
    t: z.literal("JobStart"),
    argv: z.array(z.string()).min(1),
    cwd: z.string().optional(),
    user: z.string().optional(),
    env: Env.optional(),
    timeout_ms: z.number().positive().optional(),
    tty: z.boolean(),
    trace_id: TraceId,
  }),
  z.strictObject({ t: z.literal("JobStop"), job: JobId }),
  /** an order to a service, which is named as in the profile */
  z.strictObject({
    t: z.literal("ServiceAct"),
    name: z.string(),
    action: z.enum(["start", "stop", "restart"]),
  }),
  /** a job's output from a position on, until its end */
  z.strictObject({ t: z.literal("JobFollow"), job: JobId, from: z.int().nonnegative() }),
  /** the record as it is now can be read from its file */
  z.strictObject({ t: z.literal("Flush") }),
  z.strictObject({ t: z.literal("AwaitFile"), path: z.string(), size: z.int() }),
  /** the host took files from the workspace, or put some into it */
  z.strictObject({
    t: z.literal("ObserveFile"),
    operation: z.enum(["import", "export"]),
    path: z.string(),
    byte_count: z.int(),
    labels: z.record(z.string(), z.string()),
  }),
  /** may the host put a file into the VM, or hand one out? Recorded like {@linkcode ObserveFile} */
  z.strictObject({
    t: z.literal("DecideFile"),
    operation: z.enum(["import", "export"]),
    path: z.string(),
    byte_count: z.int(),
    labels: z.record(z.string(), z.string()),
    /** as of `Exec` */
    look: z.literal(true).optional(),
    trace_id: TraceId,
  }),
  /** an action of the guest's agent on one of its files, with the streams of a program */
  z.strictObject({
    t: z.literal("GuestFile"),
    words: z.array(z.string()).min(2),
    /** `bytes` kept of each stream; the rest is dropped and sets `truncated` */
    limit: z.int(),
    stdin: z.boolean(),
  }),
  z.strictObject({ t: z.literal("Asks") }),
  /** answers that cover further events */
  z.strictObject({ t: z.literal("AsksInForce") }),
  z.strictObject({
    t: z.literal("Resolve"),
    ask_id: z.string(),
    ...AskAnswer.shape,
    ...AskShown.shape,
    by: AnsweredBy,
  }),
  /** a person withdraws an answer that covers further events */
  z.strictObject({ t: z.literal("Withdraw"), ask_id: z.string(), by: AnsweredBy }),
  /** how far the budgets are used up */
  z.strictObject({ t: z.literal("Budgets") }),
  /** match counters of the detection rules */
  z.strictObject({ t: z.literal("Counters") }),
  /** the aggregator's `list_servers`, the built-in server first */
  z.strictObject({ t: z.literal("McpListServers") }),
  /** the aggregator's `list_tools`, the built-in server's first */
  z.strictObject({ t: z.literal("McpListTools") }),
  /** reads the contract again, then the aggregator's `refresh` */
  z.strictObject({ t: z.literal("McpRefreshTools") }),
  /** the aggregator's `call_tool`, through policy */
  z.strictObject({
    t: z.literal("McpCallTool"),
    name: z.string(),
    arguments: z.record(z.string(), z.unknown()),
    trace_id: TraceId,
  }),
  /** a tool was approved */
  z.strictObject({ t: z.literal("McpRecheck") }),
  /** the VM for the program of a stdio server, or the reason why there is no VM */
  z.strictObject({
    t: z.literal("McpProgramVm"),
    need: McpNeed,
    session: z.uuid().optional(),
    error: z.string().optional(),
  }),
  /** the current secrets of credentials whose programs the service runs, by ref */
  z.strictObject({
    t: z.literal("Secrets"),
    secrets: z.record(z.string(), z.strictObject({ secret: z.string(), expires_at: z.number() })),
  }),
  /** the contract changed: read it again */
  z.strictObject({ t: z.literal("Refresh") }),
  /** the state of the repositories before a turn is kept, or will not be */
  z.strictObject({ t: z.literal("TurnKept"), turn: z.uuid() }),
  /** a person lifts what holds the VM back */
  z.strictObject({ t: z.literal("Lift"), by: AnsweredBy }),
  z.strictObject({ t: z.literal("Pause") }),
  z.strictObject({ t: z.literal("Resume") }),
  /** `idle_ms`: only if it has been unused for that long */
  z.strictObject({ t: z.literal("Suspend"), idle_ms: z.number().optional() }),
  /** how long it has been unused; its processor time is measured between two such calls */
  z.strictObject({ t: z.literal("Idle") }),
  /** copies the VM into a folder, which is removed if the caller has gone */
  z.strictObject({ t: z.literal("Fork"), dir: z.string() }),
  z.strictObject({ t: z.literal("Stop"), force: z.boolean() }),
  /** answered when the session has ended */
  z.strictObject({ t: z.literal("AwaitEnd") }),
]);
export type Call = z.infer<typeof Call>;
export type CallKind = Call["t"];
export type BootCall = Extract<Call, { t: "Boot" }>;
export type GuestFileCall = Extract<Call, { t: "GuestFile" }>;
export type ExecCall = Extract<Call, { t: "Exec" }>;

/** Later frames of a call that takes input. */
export const Input = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Data"), data: z.string() }),
  z.strictObject({ t: z.literal("End") }),
  z.strictObject({ t: z.literal("Resize"), ...size }),
]);
export type Input = z.infer<typeof Input>;

const Stage = z.strictObject({ name: z.string(), ms: z.number() });
export const MachineState = z.enum(["Booting", "Running", "Paused", "Suspended", "Stopped", "Defunct"]);

/** How a machine was started, and why not from memory, in words for a person. */
const MachineStart = z.strictObject({
  by: z.enum(["cold", "template", "resume", "fork"]),
  why: z.string().optional(),
});
export type MachineStart = z.infer<typeof MachineStart>;

/** Who had a VM suspended: an idle one resumes automatically. */
export const SuspendedBy = z.enum(["person", "idle"]);
export type SuspendedBy = z.infer<typeof SuspendedBy>;

/** One machine, as its process sees it. */
export const MachineInfo = z.strictObject({
  state: MachineState,
  accelerator: z.string().optional(),
  started: MachineStart.optional(),
  boot_stages: z.array(Stage),
  last_error: z.string().optional(),
  network_error: z.string().optional().describe("reason why its guest has no network"),
  activity_error: z.string().optional().describe("reason why its guest does not report its programs"),
  mcp_needs: z.array(McpNeed).optional().describe("stdio MCP servers that need a VM while this one runs"),
  dev_ports: z.array(PortNumber).optional().describe("development ports that its programs listen on"),
  failed_services: z.array(z.strictObject({
    name: z.string(),
    reason: z.string(),
    is_unhealthy: z.literal(true).optional().describe("it runs, and its image's health check fails"),
  })).optional().describe(
    "services that are not started again",
  ),
  suspended_by: SuspendedBy.optional(),
  response: Hold.optional().describe("what holds the VM back after a finding"),
  pid: z.int(),
});
export type MachineInfo = z.infer<typeof MachineInfo>;

/** The last event of a session, and the hash of its row in the ledger's chain. */
export const LastEvent = z.strictObject({ id: z.string(), hash: z.string() });

/** Frames that reply to a call. */
export const Reply = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Ok") }),
  z.strictObject({ t: z.literal("Info"), info: MachineInfo }),
  z.strictObject({ t: z.literal("Idle"), ms: z.number() }),
  z.strictObject({
    t: z.literal("Forked"),
    still_ms: z.number().describe("time that the machine stood still"),
    event: LastEvent.optional(),
  }),
  z.strictObject({
    t: z.literal("Notice"),
    type: z.enum(["security-event", "finding", "ask"]),
    payload: z.record(z.string(), z.unknown()),
  }),
  /** heads of the rows in the ledger: the newest ones, within 50 ms of their write */
  z.strictObject({ t: z.literal("Heads"), heads: Heads }),
  /** a turn of an agent begins, and waits for `TurnKept` for a while */
  z.strictObject({ t: z.literal("Turn"), turn: z.uuid(), at_unix_ms: z.int() }),
  /** `decided`: the last ones that changed rules decided */
  z.strictObject({ t: z.literal("Asks"), asks: z.array(Ask), decided: z.array(Ask) }),
  z.strictObject({ t: z.literal("AsksInForce"), asks: z.array(AskInForce) }),
  z.strictObject({ t: z.literal("Ask"), ask: Ask }),
  z.strictObject({ t: z.literal("Withdrawn"), ask: AskInForce }),
  /** `refusal`: why it may not be */
  /** `event_id`: empty after a look without an event */
  z.strictObject({ t: z.literal("FileDecided"), event_id: z.string(), refusal: z.string().optional() }),
  z.strictObject({ t: z.literal("FileDone"), exit_code: z.int(), truncated: z.boolean() }),
  z.strictObject({ t: z.literal("Budgets"), budgets: z.array(BudgetUse) }),
  z.strictObject({ t: z.literal("Counters"), counters: z.array(RuleCounter) }),
  z.strictObject({ t: z.literal("McpServers"), servers: z.array(ServerStatus) }),
  z.strictObject({ t: z.literal("McpTools"), tools: z.array(ToolEntry) }),
  /** MCP's `CallToolResult` */
  z.strictObject({ t: z.literal("McpResult"), result: z.unknown() }),
  z.strictObject({ t: z.literal("Output"), stream: z.enum(["stdout", "stderr"]), data: z.string() }),
  /** `bytes` of input that the program has */
  z.strictObject({ t: z.literal("Taken"), bytes: z.int() }),
  /** `bytes` of output before the next that were not kept */
  z.strictObject({ t: z.literal("Missing"), bytes: z.int() }),
  z.strictObject({ t: z.literal("Jobs"), jobs: z.array(JobRecord) }),
  z.strictObject({ t: z.literal("Job"), job: JobRecord }),
  z.strictObject({ t: z.literal("Ports"), ports: z.array(PortRecord) }),
  z.strictObject({ t: z.literal("Port"), port: PortRecord }),
  z.strictObject({
    t: z.literal("Exited"),
    exit_code: z.int(),
    truncated: z.boolean(),
    duration_ms: z.number(),
    event_id: z.string(),
    limits_reached: z.array(ReachedLimit).optional(),
  }),
  z.strictObject({
    t: z.literal("Failed"),
    code: z.string(),
    message: z.string(),
    hint: z.string().optional(),
  }),
]);
export type Reply = z.infer<typeof Reply>;

/** Kinds of replies to each call; `Failed` replies to any. */
export const REPLIES = {
  Boot: ["Info"],
  Watch: ["Info", "Notice", "Heads", "Turn"],
  Info: ["Info"],
  Exec: ["Output", "Taken", "Exited"],
  Terminal: ["Output"],
  Ports: ["Ports"],
  PortOpen: ["Port"],
  PortClose: ["Port"],
  Jobs: ["Jobs"],
  JobStart: ["Job"],
  JobStop: ["Job"],
  ServiceAct: ["Job"],
  JobFollow: ["Output", "Missing", "Job"],
  Flush: ["Ok"],
  AwaitFile: ["Ok"],
  ObserveFile: ["Ok"],
  DecideFile: ["FileDecided"],
  GuestFile: ["Output", "Taken", "FileDone"],
  Asks: ["Asks"],
  AsksInForce: ["AsksInForce"],
  Resolve: ["Ask"],
  Withdraw: ["Withdrawn"],
  Budgets: ["Budgets"],
  Counters: ["Counters"],
  McpListServers: ["McpServers"],
  McpListTools: ["McpTools"],
  McpRefreshTools: ["Ok"],
  McpCallTool: ["McpResult"],
  McpRecheck: ["Ok"],
  McpProgramVm: ["Ok"],
  Secrets: ["Ok"],
  Refresh: ["Ok"],
  TurnKept: ["Ok"],
  Lift: ["Info"],
  Pause: ["Info"],
  Suspend: ["Info"],
  Fork: ["Forked"],
  Idle: ["Idle"],
  Resume: ["Info"],
  Stop: ["Info"],
  AwaitEnd: ["Info"],
} as const satisfies Record<CallKind, readonly Reply["t"][]>;

/** Calls whose replies are a stream. */
export type StreamKind = "Watch" | "Exec" | "GuestFile" | "Terminal" | "JobFollow";
/** Calls with a single reply. */
export type SingleKind = Exclude<CallKind, StreamKind>;

/** Replies to calls of one kind. */
export type ReplyTo<T extends CallKind> = Extract<Reply, { t: typeof REPLIES[T][number] }>;
