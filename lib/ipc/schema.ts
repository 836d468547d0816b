/** What sbx-service asks of an sbx-process (contracts.md §7): one connection a call, so that each has its own back-pressure and its own end. */
import { z } from "zod";

/** Version of this wire; both sides say theirs first. */
export const IPC_VERSION = 1;

const Env = z.record(z.string(), z.string());
const Size = z.object({ cols: z.int().min(1).max(1000), rows: z.int().min(1).max(1000) });

export const Hello = z.strictObject({ t: z.literal("Hello"), version: z.int(), schema_hash: z.string() });

/** The first frame after the greeting: what the call is. */
export const Call = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Boot"), accelerator: z.enum(["kvm", "tcg"]) }),
  z.strictObject({ t: z.literal("Watch") }),
  z.strictObject({ t: z.literal("Info") }),
  z.strictObject({
    t: z.literal("Exec"),
    argv: z.array(z.string()).min(1),
    cwd: z.string().optional(),
    env: Env.optional(),
    timeout_ms: z.number().positive().optional(),
    /** bytes of each stream that are kept; the rest is dropped and `truncated` says so */
    limit: z.int().optional(),
    stdin: z.boolean(),
  }),
  z.strictObject({ t: z.literal("Terminal"), argv: z.array(z.string()).min(1).optional(), ...Size.shape }),
  z.strictObject({ t: z.literal("AwaitFile"), path: z.string(), size: z.int() }),
  z.strictObject({ t: z.literal("Asks") }),
  z.strictObject({
    t: z.literal("Resolve"),
    ask_id: z.string(),
    decision: z.enum(["allow", "deny"]),
    scope: z.enum(["once", "session", "minutes"]),
    minutes: z.number().optional(),
  }),
  /** what each rule of detection has found */
  z.strictObject({ t: z.literal("Counters") }),
  z.strictObject({ t: z.literal("McpListServers") }),
  z.strictObject({ t: z.literal("McpListTools") }),
  z.strictObject({ t: z.literal("McpRefreshTools") }),
  z.strictObject({
    t: z.literal("McpCallTool"),
    name: z.string(),
    arguments: z.record(z.string(), z.unknown()),
  }),
  /** somebody approved a tool */
  z.strictObject({ t: z.literal("McpRecheck") }),
  /** what holds in the session was written anew: read it */
  z.strictObject({ t: z.literal("Refresh") }),
  z.strictObject({ t: z.literal("Pause") }),
  z.strictObject({ t: z.literal("Resume") }),
  z.strictObject({ t: z.literal("Stop"), force: z.boolean() }),
]);
export type Call = z.infer<typeof Call>;
export type ExecCall = Extract<Call, { t: "Exec" }>;

/** Later frames of a call that takes input. */
export const Input = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Data"), data: z.string() }),
  z.strictObject({ t: z.literal("End") }),
  z.strictObject({ t: z.literal("Resize"), ...Size.shape }),
]);
export type Input = z.infer<typeof Input>;

const Stage = z.object({ name: z.string(), ms: z.number() });
export const MachineState = z.enum(["Booting", "Running", "Paused", "Stopped", "Defunct"]);

/** All about one machine, as its process sees it. */
export const MachineInfo = z.object({
  state: MachineState,
  accelerator: z.string().optional(),
  boot_stages: z.array(Stage),
  last_error: z.string().optional(),
  network_error: z.string().optional().describe("why its guest has no network"),
  pid: z.int(),
});
export type MachineInfo = z.infer<typeof MachineInfo>;

/** Frames that answer a call. */
export const Reply = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Ok") }),
  z.strictObject({ t: z.literal("Info"), info: MachineInfo }),
  z.strictObject({ t: z.literal("Notice"), type: z.string(), payload: z.record(z.string(), z.unknown()) }),
  z.strictObject({ t: z.literal("Value"), value: z.unknown() }),
  z.strictObject({ t: z.literal("Output"), stream: z.enum(["stdout", "stderr"]), data: z.string() }),
  z.strictObject({
    t: z.literal("Exited"),
    exit_code: z.int(),
    truncated: z.boolean(),
    duration_ms: z.number(),
    event_id: z.string(),
  }),
  z.strictObject({
    t: z.literal("Failed"),
    code: z.string(),
    message: z.string(),
    hint: z.string().optional(),
  }),
]);
export type Reply = z.infer<typeof Reply>;
