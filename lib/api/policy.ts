/** Routes of enforcement rules, asks and decisions (contracts.md §2, §5). */
import { createRoute, z } from "@hono/zod-openapi";
import { PolicyContextSchema } from "../event/schema.ts";
import { RULE_ID, RuleSchema } from "../policy/author/schema.ts";
import { answers, body, VmParam } from "./common.ts";

export const RuleView = z.object({
  ...RuleSchema.shape,
  id: z.string(),
  layer: z.enum(["corp", "profile", "default"]),
  name: z.string(),
  priority: z.int(),
  file: z.string().optional(),
  line: z.int().optional(),
}).openapi("Rule");

export const LintView = z.object({
  code: z.string(),
  severity: z.enum(["error", "warning"]),
  rule_id: z.string(),
  layer: z.string(),
  file: z.string().optional(),
  line: z.int().optional(),
  other_rule_id: z.string().optional(),
  message: z.string(),
  witness: z.record(z.string(), z.unknown()).optional().describe("an event that shows it"),
}).openapi("PolicyLint");

export const DecisionView = z.object({
  event_id: z.string(),
  decision: z.enum(["allow", "ask", "block"]),
  rule: z.object({
    id: z.string(),
    name: z.string(),
    layer: z.enum(["corp", "profile", "default", "none"]),
    file: z.string().optional(),
    line: z.int().optional(),
    reason: z.string().optional(),
  }),
  matched_fields: z.array(z.object({ path: z.string(), value: z.unknown() })),
  rewrites: z.array(z.object({ rule_id: z.string(), op: z.string(), path: z.string() })),
  evaluated: z.int().describe("rules whose expression was run"),
  near_misses: z.array(z.object({
    rule_id: z.string(),
    failed: z.string().describe("the clause that did not hold"),
    path: z.string(),
    value: z.unknown().optional(),
  })),
  remedy: z.string().optional(),
  answered: z.object({
    status: z.enum(["allowed", "denied", "expired"]),
    ask_id: z.string().describe("an earlier ask, where its answer covers this event too"),
    at: z.iso.datetime(),
    waited_ms: z.number(),
    scope: z.enum(["once", "session", "minutes"]).optional(),
    minutes: z.number().optional(),
    by: z.string().optional(),
  }).optional().describe("what became of it, when it was asked about; expired when nobody answered"),
}).openapi("Decision");

export const FindingView = z.object({
  finding_id: z.string(),
  event_id: z.string(),
  rule_id: z.string(),
  pack_id: z.string(),
  sigma_id: z.string().optional(),
  title: z.string(),
  severity: z.enum(["info", "low", "medium", "high", "critical"]),
  confidence: z.enum(["low", "medium", "high"]),
  tags: z.array(z.string()),
}).openapi("Finding");

export type FindingView = z.infer<typeof FindingView>;

export const RuleList = z.object({ rules: z.array(RuleView), lints: z.array(LintView) }).openapi("RuleList");
export type RuleList = z.infer<typeof RuleList>;

export const RuleSaved = z.object({ rule: RuleView, lints: z.array(LintView) }).openapi("RuleSaved");
export type RuleSaved = z.infer<typeof RuleSaved>;

/** An event in a request; its schema is recursive, which OpenAPI's generator cannot follow. */
const EventBody = z.record(z.string(), z.unknown()).superRefine((event, context) => {
  const parsed = PolicyContextSchema.safeParse(event);
  for (const issue of parsed.error?.issues ?? []) context.addIssue({ ...issue } as z.core.$ZodRawIssue);
}).describe("sbx.policy-context.v1: any part of an event, at least common.event_type");

export const EvaluateRequest = z.strictObject({ event: EventBody }).openapi("Evaluate");
export type EvaluateRequest = z.infer<typeof EvaluateRequest>;

export const EvaluateResult = z.object({
  decision: DecisionView,
  findings: z.array(FindingView),
  event: z.record(z.string(), z.unknown()).optional().describe("the event after its rewrites, if it has any"),
  failures: z.array(z.object({ rule_id: z.string(), event_id: z.string(), message: z.string() })),
}).openapi("EvaluateResult");
export type EvaluateResult = z.infer<typeof EvaluateResult>;

export const AskView = z.object({
  ask_id: z.string(),
  event_id: z.string(),
  session_id: z.string(),
  event_type: z.string(),
  subject: z.string().describe("what wants to happen, on one line"),
  rule_id: z.string(),
  reason: z.string(),
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime(),
  status: z.enum(["pending", "allowed", "denied", "expired"]),
}).openapi("Ask");
export type AskView = z.infer<typeof AskView>;

export const AskList = z.object({ asks: z.array(AskView) }).openapi("AskList");
export type AskList = z.infer<typeof AskList>;

export const AskResolve = z.strictObject({
  decision: z.enum(["allow", "deny"]),
  scope: z.enum(["once", "session", "minutes"]),
  minutes: z.number().positive().max(24 * 60).optional().describe("with scope minutes"),
}).openapi("AskResolve");
export type AskAnswer = z.infer<typeof AskResolve>;

export const WhyResult = z.object({
  event: z.record(z.string(), z.unknown()),
  decision: DecisionView.optional().describe("absent for an event that was only observed"),
  findings: z.array(FindingView),
}).openapi("Why");
export type WhyResult = z.infer<typeof WhyResult>;

export const PolicyContexts = z.object({
  contexts: z.array(z.object({
    schema: z.literal("sbx.policy-context-fixture.v1"),
    event_ref: z.object({
      corpus: z.string(),
      session_id: z.string(),
      event_id: z.string(),
      sequence: z.int(),
      timestamp_unix_ms: z.int(),
    }),
    expected_labels: z.array(z.string()),
    context: z.record(z.string(), z.unknown()),
  })),
  next_cursor: z.string().optional(),
}).openapi("PolicyContexts");
export type PolicyContexts = z.infer<typeof PolicyContexts>;

const inPath = (name: string) => ({ param: { name, in: "path" as const } });
const profile = z.object({ id: z.string().openapi(inPath("id")) });
const rule = profile.extend({ rule_id: z.string().regex(RULE_ID).openapi(inPath("rule_id")) });
const event = VmParam.extend({ event_id: z.string().regex(/^[0-9a-f]{12}$/).openapi(inPath("event_id")) });
const ask = z.object({ id: z.string().openapi(inPath("id")) });
const tags = ["policy"];
const rules = "/profiles/{id}/enforcement/rules";

export const policyRoutes = {
  listRules: createRoute({
    method: "get",
    path: `${rules}/list`,
    tags,
    request: { params: profile },
    responses: answers(
      "every rule that is in force with this profile, in the order in which they are looked at",
      RuleList,
    ),
  }),
  getRule: createRoute({
    method: "get",
    path: `${rules}/{rule_id}`,
    tags,
    request: { params: rule },
    responses: answers("one rule", RuleView),
  }),
  putRule: createRoute({
    method: "put",
    path: `${rules}/{rule_id}`,
    tags,
    request: { params: rule, ...body(RuleSchema) },
    responses: answers("the rule as it is now, and what the linter says", RuleSaved),
  }),
  deleteRule: createRoute({
    method: "delete",
    path: `${rules}/{rule_id}`,
    tags,
    request: { params: rule },
    responses: answers("gone", z.object({ id: z.string(), deleted: z.literal(true) })),
  }),
  evaluate: createRoute({
    method: "post",
    path: "/profiles/{id}/enforcement/evaluate",
    tags,
    request: { params: profile, ...body(EvaluateRequest) },
    responses: answers("what the rules say of one event", EvaluateResult),
  }),
  asks: createRoute({
    method: "get",
    path: "/asks",
    tags,
    responses: answers("what waits for a person", AskList),
  }),
  resolveAsk: createRoute({
    method: "post",
    path: "/asks/{id}/resolve",
    tags,
    request: { params: ask, ...body(AskResolve) },
    responses: answers("the ask as it is now", AskView),
  }),
  why: createRoute({
    method: "get",
    path: "/sessions/{id}/events/{event_id}/why",
    tags: ["session"],
    request: { params: event },
    responses: answers("the decision record of one event", WhyResult),
  }),
  contexts: createRoute({
    method: "get",
    path: "/sessions/{id}/policy-contexts",
    tags: ["session"],
    request: {
      params: VmParam,
      query: z.object({
        cursor: z.string().optional(),
        limit: z.coerce.number().int().min(1).max(1000).optional(),
      }),
    },
    responses: answers("the session's events as detection fixtures", PolicyContexts),
  }),
};
