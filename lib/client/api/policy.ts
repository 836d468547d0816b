/** Routes of enforcement rules, asks and decisions (docs/design/contracts/05-policy.md §5). */
import { createRoute, z } from "@hono/zod-openapi";
import { SEVERITIES } from "../../event/mod.ts";
import { PolicyContextSchema } from "../../event/schema.ts";
import { AnsweredBy, Ask, AskAnswer, AskInForce, AskShown } from "../../policy/ask/schema.ts";
import { Decision } from "../../policy/decision/schema.ts";
import {
  DetectionChange,
  FullRuleSchema,
  RULE_ID,
  RULE_ID_WORDS,
  RuleChange,
  RuleSchema,
} from "../../policy/author/schema.ts";
import { answers, body, EventRef, VmParam } from "./common.ts";
import { ProfileInForce } from "./vm.ts";

const { match_line: _, ...fullRule } = FullRuleSchema.shape;
export const RuleView = z.object({
  ...RuleSchema.shape,
  ...fullRule,
  enabled: RuleSchema.shape.enabled,
  digest: z.string().describe(
    "digest of the rule without its place, by which an edit names the rule that it replaces",
  ),
}).openapi("Rule");

export const LintView = z.object({
  code: z.string(),
  severity: z.enum(["error", "warning", "note"]).describe("note: how far an allow reaches"),
  rule_id: z.string(),
  layer: z.string(),
  file: z.string().optional(),
  line: z.int().optional(),
  at: z.int().optional().describe("offset in the match expression of a draft that does not compile"),
  other_rule_id: z.string().optional(),
  message: z.string(),
  witness: z.record(z.string(), z.unknown()).optional().describe("example event"),
}).openapi("PolicyLint");

export const DecisionView = z.object(Decision.shape).openapi("Decision");

export const FindingView = z.object({
  finding_id: z.string(),
  event_id: z.string(),
  rule_id: z.string(),
  pack_id: z.string(),
  sigma_id: z.string().optional(),
  title: z.string(),
  severity: z.enum(SEVERITIES),
  confidence: z.enum(["low", "medium", "high"]),
  tags: z.array(z.string()),
  export_routes: z.array(z.string()).optional().describe("sinks that its pack names; absent: all"),
}).openapi("Finding");

export type FindingView = z.infer<typeof FindingView>;

export const RuleList = z.object({
  rules: z.array(RuleView),
  disabled: z.array(RuleView).describe("rules of the files that are off, and decide nothing"),
  editable: z.array(z.string()).describe(
    "ids of the rules that a person may change: the profile's own, or the ones added to a built-in one",
  ),
  lints: z.array(LintView),
  vms: z.array(ProfileInForce.extend({ id: z.uuid(), name: z.string() })).describe(
    "running VMs of the profile; an outdated one enforces other rules than these",
  ),
}).openapi("RuleList");
export type RuleList = z.infer<typeof RuleList>;

export const RuleHits = z.object({
  rules: z.array(z.object({ rule_id: z.string(), events: z.int() })).describe("the most events first"),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("RuleHits");
export type RuleHits = z.infer<typeof RuleHits>;

export const RuleSaved = z.object({ rule: RuleView, lints: z.array(LintView) }).openapi("RuleSaved");
export type RuleSaved = z.infer<typeof RuleSaved>;

/** An event in a request. Its schema is recursive, which the OpenAPI generator does not support. */
const EventBody = z.record(z.string(), z.unknown()).superRefine((event, context) => {
  const parsed = PolicyContextSchema.safeParse(event);
  for (const issue of parsed.error?.issues ?? []) context.addIssue({ ...issue } as z.core.$ZodRawIssue);
}).describe("sbx.policy-context.v1: part of an event, with common.event_type at least");

/** An unsaved rule of a profile, new or in place of one with its id. */
const DraftBody = z.strictObject({
  rule_id: z.string().regex(RULE_ID, RULE_ID_WORDS),
  rule: z.strictObject(RuleSchema.shape),
}).openapi("RuleDraft");

export const EvaluateRequest = z.strictObject({
  event: EventBody,
  draft: DraftBody.optional().describe("decides with this rule too, which is not saved"),
}).openapi("Evaluate");
export type EvaluateRequest = z.infer<typeof EvaluateRequest>;

export const EvaluateResult = z.object({
  decision: DecisionView,
  findings: z.array(FindingView),
  event: z.record(z.string(), z.unknown()).optional().describe("rewritten event; absent without rewrites"),
  failures: z.array(z.object({ rule_id: z.string(), event_id: z.string(), message: z.string() })),
}).openapi("EvaluateResult");
export type EvaluateResult = z.infer<typeof EvaluateResult>;

/** Most events that differ, of one answer. */
export const DIFFERENCES_MAX = 1000;

/** Most events of many sessions that one draft is tried on (docs/design/contracts/14-limits.md §14). */
export const TRIED_MAX = 5000;

export const TryRequest = DraftBody.extend({
  session: z.string().optional().describe("id or name; absent: the linter alone"),
  since: z.int().min(0).optional().describe(
    `only the newest ${
      TRIED_MAX.toLocaleString("en")
    } events, from this time on, unix milliseconds; without a session, of all sessions of the profile`,
  ),
  limit: z.int().min(1).max(DIFFERENCES_MAX).default(100).describe("most events that are listed: the newest"),
}).openapi("RuleTry");
export type TryRequest = z.input<typeof TryRequest>;

const Verdict = z.object({
  decision: z.string(),
  rule_id: z.string(),
  rewrites: z.int().describe("number of changes that rewrite rules make"),
});

export const TryResult = z.object({
  lints: z.array(LintView).describe("about the draft, and about rules for which it is the reason"),
  effect: z.object({
    decided: z.int().describe("events of the session that rules decide on"),
    different: z.int().describe("events among them that the draft decides in another way"),
    changes: z.array(z.object({ from: z.string(), to: z.string(), count: z.int() })),
    differences: z.array(z.object({
      session_id: z.string(),
      event_id: z.string(),
      event_type: z.string(),
      timestamp_unix_ms: z.int(),
      subject: z.string().describe("subject of the event on one line"),
      before: Verdict,
      after: Verdict,
    })).describe("the newest that differ, oldest first"),
    truncated: z.boolean().describe("more differ than are listed: older ones"),
    sessions: z.int().describe("sessions that have the events"),
    has_older: z.boolean().describe("there are older events, which were not tried"),
  }).optional().describe("absent without a session, or for a draft that cannot be saved"),
}).openapi("RuleTried");
export type TryResult = z.infer<typeof TryResult>;

export const RuleChangeView = z.object(RuleChange.shape).openapi("RuleChange");
export type RuleChangeView = z.infer<typeof RuleChangeView>;

const ChangeView = z.discriminatedUnion("kind", [
  RuleChangeView,
  z.object(DetectionChange.shape).openapi("DetectionChange"),
]);
export type ChangeView = z.infer<typeof ChangeView>;

/** Most changes of one answer. */
export const RULE_CHANGES_MAX = 1000;

export const RuleChanges = z.object({ changes: z.array(ChangeView) }).openapi("RuleChanges");
export type RuleChanges = z.infer<typeof RuleChanges>;

export const RuleUndone = z.object({
  change: ChangeView.optional().describe("absent: it was already as before"),
}).openapi("RuleUndone");
export type RuleUndone = z.infer<typeof RuleUndone>;

export const AskRule = DraftBody.extend({
  profile_id: z.string(),
  replaces: z.boolean().describe("the profile has a rule of this id, which this one takes the place of"),
  digest: z.string().optional().describe("digest of the replaced rule"),
}).openapi("AskRule");
export type AskRule = z.infer<typeof AskRule>;

export const AskView = z.object(Ask.shape).openapi("Ask");
export type AskView = z.infer<typeof AskView>;

export const AskList = z.object({ asks: z.array(AskView) }).openapi("AskList");
export type AskList = z.infer<typeof AskList>;

export const AskInForceView = z.object({ ...AskInForce.shape, vm: z.string().describe("name of the VM") })
  .openapi("AskInForce");
export type AskInForceView = z.infer<typeof AskInForceView>;

export const AsksInForce = z.object({
  asks: z.array(AskInForceView).describe("oldest answer first"),
  unreadable: z.array(z.string()).describe("ids of sessions whose VM does not reply"),
}).openapi("AsksInForce");
export type AsksInForce = z.infer<typeof AsksInForce>;

/** Most asks of one answer (docs/design/contracts/14-limits.md §14). */
export const PAST_ASKS_MAX = 1000;

const text = z.string().min(1).max(1024).optional();
const time = z.coerce.number().int().min(0).optional();

export const PastAsksQuery = z.object({
  profile: text.describe("only sessions of VMs of this profile"),
  vm: text.describe("only sessions of the VM of this name or id, deleted or not"),
  since: time.describe("only asks from this time on, unix milliseconds"),
  until: time.describe("only asks before this time, unix milliseconds"),
  status: z.enum(["allowed", "denied", "expired"]).optional(),
  limit: z.coerce.number().int().min(1).max(PAST_ASKS_MAX).optional(),
});

export const PastAsk = z.object({
  ...Ask.shape,
  vm: z.string().describe("name of the VM"),
  answer: AskAnswer.optional().describe("absent: it expired"),
  answered_by: AnsweredBy.optional(),
  resolved_at: z.iso.datetime(),
}).openapi("PastAsk");
export type PastAsk = z.infer<typeof PastAsk>;

export const PastAsks = z.object({
  asks: z.array(PastAsk).describe("newest first"),
  truncated: z.boolean().describe("there are more: older ones"),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("PastAsks");
export type PastAsks = z.infer<typeof PastAsks>;

export const AskResolve = z.strictObject({ ...AskAnswer.shape, ...AskShown.shape }).openapi("AskResolve");
export type AskResolve = z.infer<typeof AskResolve>;
export type { AskAnswer };

export const WhyResult = z.object({
  event: z.record(z.string(), z.unknown()),
  decision: DecisionView.optional().describe("absent for an event that is only recorded"),
  findings: z.array(FindingView),
}).openapi("Why");
export type WhyResult = z.infer<typeof WhyResult>;

export const PolicyContexts = z.object({
  contexts: z.array(z.object({
    schema: z.literal("sbx.policy-context-fixture.v1"),
    event_ref: EventRef,
    expected_labels: z.array(z.string()),
    context: z.record(z.string(), z.unknown()),
  })),
  next_cursor: z.string().optional(),
}).openapi("PolicyContexts");
export type PolicyContexts = z.infer<typeof PolicyContexts>;

const inPath = (name: string) => ({ param: { name, in: "path" as const } });
const profile = z.object({ id: z.string().openapi(inPath("id")) });
const rule = profile.extend({ rule_id: z.string().regex(RULE_ID, RULE_ID_WORDS).openapi(inPath("rule_id")) });
const asRead = z.object({
  digest: z.string().regex(/^[0-9a-f]{64}$/).optional().describe(
    "of the rule as it was read; 409 policy.change.conflict if it is another one by now. Absent: any",
  ),
});
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
      "all rules active with this profile, in order of evaluation",
      RuleList,
    ),
  }),
  ruleHits: createRoute({
    method: "get",
    path: "/profiles/{id}/enforcement/hits",
    tags,
    request: {
      params: profile,
      query: z.object({
        since: z.coerce.number().int().min(0).describe("only events from this time on, unix milliseconds"),
      }),
    },
    responses: answers("how many recorded events each rule decided on", RuleHits),
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
    request: { params: rule, query: asRead, ...body(RuleSchema) },
    responses: answers("the saved rule, and its lint messages", RuleSaved),
  }),
  createRule: createRoute({
    method: "post",
    path: `${rules}/create`,
    tags,
    request: { params: profile, ...body(DraftBody) },
    responses: answers("the new rule, and its lint messages", RuleSaved),
  }),
  deleteRule: createRoute({
    method: "delete",
    path: `${rules}/{rule_id}`,
    tags,
    request: { params: rule, query: asRead },
    responses: answers("the rule is deleted", z.object({ id: z.string(), deleted: z.literal(true) })),
  }),
  reload: createRoute({
    method: "post",
    path: "/vms/{id}/policy/reload",
    tags,
    request: { params: VmParam },
    responses: answers("the VM enforces its profile as its files are now", ProfileInForce),
  }),
  evaluate: createRoute({
    method: "post",
    path: "/profiles/{id}/enforcement/evaluate",
    tags,
    request: { params: profile, ...body(EvaluateRequest) },
    responses: answers("decision and findings for one event", EvaluateResult),
  }),
  tryRule: createRoute({
    method: "post",
    path: `${rules}/try`,
    tags,
    request: { params: profile, ...body(TryRequest) },
    responses: answers("remarks on an unsaved rule, and what it would change in a session", TryResult),
  }),
  changes: createRoute({
    method: "get",
    path: "/enforcement/changes",
    tags,
    request: {
      query: z.object({
        profile: z.string().optional().describe("id; absent: all profiles, and overlays"),
        limit: z.coerce.number().int().min(1).max(RULE_CHANGES_MAX).optional(),
      }),
    },
    responses: answers("recorded changes of rules and overlays, newest first", RuleChanges),
  }),
  undoChange: createRoute({
    method: "post",
    path: "/enforcement/changes/{change_id}/undo",
    tags,
    request: { params: z.object({ change_id: z.string().openapi(inPath("change_id")) }) },
    responses: answers("the rule or overlay is as it was before the change", RuleUndone),
  }),
  asks: createRoute({
    method: "get",
    path: "/asks",
    tags,
    responses: answers("pending asks, oldest first", AskList),
  }),
  pastAsks: createRoute({
    method: "get",
    path: "/asks/history",
    tags,
    request: { query: PastAsksQuery },
    responses: answers("asks of all sessions that were answered or expired, newest first", PastAsks),
  }),
  asksInForce: createRoute({
    method: "get",
    path: "/asks/in-force",
    tags,
    responses: answers("answers that cover further events of running VMs now", AsksInForce),
  }),
  withdrawAnswer: createRoute({
    method: "delete",
    path: "/asks/in-force/{id}",
    tags,
    request: { params: ask },
    responses: answers("the answer as it was; events that it covered are asked about again", AskInForceView),
  }),
  resolveAsk: createRoute({
    method: "post",
    path: "/asks/{id}/resolve",
    tags,
    request: { params: ask, ...body(AskResolve) },
    responses: answers("the resolved ask", AskView),
  }),
  askRule: createRoute({
    method: "get",
    path: "/asks/{id}/rule",
    tags,
    request: {
      params: ask,
      query: z.object({ of: AskAnswer.shape.of, path: AskAnswer.shape.path }),
    },
    responses: answers("the rule by which events like this one pass without a question; not saved", AskRule),
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
