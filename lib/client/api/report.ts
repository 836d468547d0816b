/**
 * The report over many sessions: programs, questions, bytes that left, findings, and checks of the records.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { answers } from "./common.ts";

const text = z.string().min(1).max(1024).optional();
const time = z.coerce.number().int().min(0).optional();
const vm = z.string().describe("name of the VM");
const count = z.int().min(0);

export const ReportQuery = z.object({
  since: time.describe("only events from this time on, unix milliseconds"),
  until: time.describe("only events before this time, unix milliseconds"),
  profile: text.describe("only sessions of VMs of this profile"),
  vm: text.describe("only sessions of the VM of this name or id, deleted or not"),
});

export const ReportSession = z.object({
  id: z.string(),
  vm,
  profile_id: z.string(),
  created_at: z.string(),
  ended_at: z.string().optional().describe("absent: it runs"),
  user: z.string().optional(),
  client: z.string().optional().describe("program that asked for the VM"),
  agent: z.string().optional().describe("profile of the agent that the VM was made for"),
  events: count.describe("events in the time of the report"),
  record: z.object({
    state: z.enum(["valid", "invalid", "unreadable", "none"]).describe(
      "of the whole record; none: it has no record, since it never booted",
    ),
    sealed: z.boolean(),
    signed_by: z.string().optional().describe("trusted key that signed the seal"),
    reason: z.string().optional(),
  }),
});

export const ReportProgram = z.object({ vm, executable: z.string(), runs: count, refused: count });

export const ReportLeft = z.object({
  vm,
  kind: z.enum(["http", "dns", "database", "mcp", "export"]).describe("export: files to this machine"),
  host: z.string().describe("DNS names by their last two labels; (others): beyond the list's limit"),
  program: z.string(),
  sent: count.describe("requests that were answered, or whose answer is under way"),
  sent_bytes: count.describe("bytes of these requests"),
  failed: count.describe("allowed requests without an answer"),
  failed_bytes: count.describe("the most that these can have sent"),
  refused: count.describe("requests that were refused, or wait for an answer: nothing of them left"),
  cached: count.describe("requests that the shared cache answered: nothing of them left this machine"),
  received_bytes: count,
});

export const ReportModel = z.object({
  vm,
  provider: z.string(),
  model: z.string(),
  calls: count,
  refused: count,
  input_tokens: count,
  output_tokens: count,
  cost_micros: count,
});

export const ReportSecret = z.object({
  vm,
  credential_ref: z.string(),
  provider: z.string(),
  host: z.string(),
  location: z.string(),
  outcome: z.string(),
  uses: count,
});

export const ReportAsk = z.object({
  vm,
  at: z.string().describe("ISO 8601"),
  subject: z.string(),
  rule_id: z.string(),
  status: z.string(),
  answered_by: z.string().optional().describe("user, or the changed rule that decided in place of one"),
});

export const ReportFinding = z.object({
  vm,
  at_unix_ms: count,
  severity: z.string(),
  title: z.string(),
  rule_id: z.string(),
  event_id: z.string(),
  decision: z.string(),
  state: z.string().describe("new, acknowledged, closed, excepted"),
  verdict: z.string().optional(),
  subject: z.string(),
});

export const Report = z.object({
  schema: z.literal("sbx.report.v1"),
  generated_unix_ms: count,
  since_unix_ms: count.optional(),
  until_unix_ms: count.optional(),
  events: count,
  sessions: z.array(ReportSession).describe("sessions of that time, newest first"),
  programs: z.array(ReportProgram).describe("most runs first"),
  asks: z.array(ReportAsk).describe("asks that were answered or expired, oldest first"),
  left: z.array(ReportLeft).describe("most bytes first"),
  models: z.array(ReportModel),
  secrets: z.array(ReportSecret),
  findings: z.array(ReportFinding).describe("oldest first"),
  refused: z.array(z.object({ vm, rule_id: z.string(), event_type: z.string(), events: count })),
  hours: z.array(z.object({ at_unix_ms: count, events: count, refused: count })).describe(
    "hours in which something happened, the last 720",
  ),
  cut: z.array(z.string()).describe("lists that are not whole; their rest is in (others), or missing"),
}).openapi("Report");
export type Report = z.infer<typeof Report>;

export const reportRoutes = {
  make: createRoute({
    method: "get",
    path: "/sessions/report",
    tags: ["session"],
    request: { query: ReportQuery },
    responses: answers("a report of sessions, with a check of their records", Report),
  }),
};
