/** Routes of detections (docs/design/contracts/06-detection.md §6, "Detection routes"). */
import { createRoute, z } from "@hono/zod-openapi";
import { RuleCounter } from "../../detection/match/schema.ts";
import {
  EVIDENCE_ROWS,
  EVIDENCE_ROWS_MAX,
  IrRuleSchema,
  IrSchema,
  OFF_REASON_MAX,
  RULE_ID_MAX,
  RuleSourceSchema,
  SigmaInputSchema,
} from "../../detection/schema.ts";
import { answers, body, EventRef, VmParam } from "./common.ts";
import { FINDING_OUTCOMES } from "../../event/mod.ts";
import { AnsweredBy } from "../../policy/ask/schema.ts";
import { FindingView } from "./policy.ts";

/**
 * A pack in a request. Any object: `validate` reports an invalid pack in its
 * response, not as a request error.
 */
const PackBody = z.record(z.string(), z.unknown()).describe("sbx.detection-pack.v1").openapi("DetectionPack");

/** A single detection: Sigma with its field mapping, or a rule of the IR. */
const RuleBody = z.union([SigmaInputSchema, IrRuleSchema]).openapi("DetectionRule");

/** Sigma rules as files. */
const SigmaBody = z.strictObject(RuleSourceSchema.shape).openapi("SigmaRules");

export const PackValidation = z.object({
  schema: z.literal("sbx.detection-pack-validation.v1"),
  ok: z.boolean(),
  path: z.string(),
  diagnostics: z.array(z.object({ path: z.string(), message: z.string() })),
  pack_id: z.string().nullable(),
  version: z.string().nullable(),
}).openapi("DetectionPackValidation");
export type PackValidation = z.infer<typeof PackValidation>;

export const PackCompiled = z.object({
  compiled: z.boolean(),
  pack_id: z.string(),
  pack_version: z.string(),
  rule_count: z.int(),
  // A copy: `openapi` exists only on schemas made after zod was extended.
  ir: z.strictObject(IrSchema.shape).openapi("DetectionIr"),
  plan: z.string().describe("ir:<BLAKE3 of the IR>"),
}).openapi("DetectionPackCompiled");
export type PackCompiled = z.infer<typeof PackCompiled>;

const limit = z.int().min(1).max(EVIDENCE_ROWS_MAX).default(EVIDENCE_ROWS);

/** Requires exactly one of several keys. */
function requireOneOf(...keys: string[]) {
  return (value: Record<string, unknown>, context: z.core.$RefinementCtx) => {
    if (keys.filter((key) => value[key] !== undefined).length !== 1) {
      context.addIssue({
        code: "custom",
        path: [keys[0]],
        message: `exactly one of ${keys.join(", ")} is required`,
      });
    }
  };
}

export const BacktestRequest = z.strictObject({
  pack: PackBody.optional(),
  rule: RuleBody.optional(),
  sigma: SigmaBody.optional(),
  events: z.array(z.strictObject({
    event_ref: EventRef.partial().strict().optional(),
    context: z.record(z.string(), z.unknown()).describe("sbx.policy-context.v1"),
    expected: z.union([z.boolean(), z.array(z.string())]).optional().describe(
      "true if any rule must match, or the labels of the rules that must: rule id, Sigma id, title or tag",
    ),
  })),
  limit,
}).superRefine(requireOneOf("pack", "rule", "sigma")).openapi("DetectionBacktest");
export type BacktestRequest = z.infer<typeof BacktestRequest>;

export const HuntRequest = z.strictObject({
  pack: PackBody.optional(),
  rules: z.array(RuleBody).min(1).optional(),
  sigma: SigmaBody.optional(),
  limit,
}).superRefine(requireOneOf("pack", "rules", "sigma")).openapi("DetectionHunt");
export type HuntRequest = z.infer<typeof HuntRequest>;

export const EvidenceResult = z.object({
  total_matches: z.int().describe("matching pairs of event and rule"),
  unique_evidence_matches: z.int().describe("distinct evidence signatures"),
  truncated: z.boolean().describe("more distinct signatures exist than rows"),
  rows: z.array(z.object({
    event_ref: EventRef,
    rule_id: z.string(),
    pack_id: z.string(),
    evidence_signature: z.string().describe("BLAKE3 of the event's type and subject"),
    matched_fields: z.array(z.object({ path: z.string(), value: z.unknown() })),
    outcome: z.object({
      outcome: z.enum(["matched", "no_match", "mismatch", "error"]),
      message: z.string().optional(),
    }),
  })),
}).openapi("DetectionEvidence");
export type EvidenceResult = z.infer<typeof EvidenceResult>;

const { match_count, last_matched_event, last_matched_unix_ms } = RuleCounter.shape;
const counters = { match_count, last_matched_event, last_matched_unix_ms };
const scope = z.enum(["profile", "user", "corp", "runtime"]);

/** A rule that is switched off. */
const OffView = z.object({
  reason: z.string(),
  by: z.string().optional(),
  at: z.iso.datetime(),
}).openapi("DetectionOff");

export const DetectionView = z.object({
  id: z.string(),
  pack_id: z.string(),
  scope,
  enabled: z.boolean(),
  compiled: z.boolean(),
  ...counters,
  definition: z.unknown(),
  rules: z.array(z.object({
    id: z.string(),
    title: z.string(),
    severity: z.string(),
    ...counters,
    enabled: z.literal(false).optional().describe("present while the rule is switched off"),
    off: OffView.optional(),
  })).optional().describe("rules of a pack that was added at run time"),
  off: OffView.optional().describe("present while the rule is switched off"),
}).openapi("Detection");
export type DetectionView = z.infer<typeof DetectionView>;

const kind = z.literal("detection");

export const DetectionList = z.object({ kind, rules: z.array(DetectionView) }).openapi("DetectionList");
export type DetectionList = z.infer<typeof DetectionList>;

/** A runtime overlay; takes the place of one with the same id with `replace` only. */
export const OverlayRequest = z.strictObject({
  pack: PackBody.optional(),
  rule: RuleBody.optional(),
  sigma: SigmaBody.optional(),
  enabled: z.boolean().default(true),
  replace: z.boolean().default(false).describe("takes the place of an overlay of this id"),
}).superRefine(requireOneOf("pack", "rule", "sigma")).openapi("DetectionOverlay");
export type OverlayRequest = z.infer<typeof OverlayRequest>;

const Propagation = z.object({
  target_count: z.int().describe("running VMs"),
  failed_session_count: z.int(),
  failed_session_ids: z.array(z.string()),
}).openapi("DetectionPropagation");
export type Propagation = z.infer<typeof Propagation>;

export const OverlaySaved = z.object({ kind, rule: DetectionView, propagation: Propagation })
  .openapi("DetectionOverlaySaved");
export type OverlaySaved = z.infer<typeof OverlaySaved>;

export const OverlayRemoved = z.object({
  kind,
  id: z.string(),
  removed: z.boolean(),
  propagation: Propagation,
})
  .openapi("DetectionOverlayRemoved");
export type OverlayRemoved = z.infer<typeof OverlayRemoved>;

export const RuleSwitch = z.strictObject({
  enabled: z.boolean(),
  reason: z.string().min(1).max(OFF_REASON_MAX).optional().describe("required to switch a rule off"),
}).superRefine(({ enabled, reason }, context) => {
  if (enabled === (reason === undefined)) return;
  const message = enabled ? "is of a rule that is switched off" : "is required to switch a rule off";
  context.addIssue({ code: "custom", path: ["reason"], message });
}).openapi("DetectionSwitch");
export type RuleSwitch = z.infer<typeof RuleSwitch>;

export const RuleSwitched = z.object({
  kind,
  id: z.string(),
  pack_id: z.string(),
  enabled: z.boolean(),
  propagation: Propagation,
}).openapi("DetectionSwitched");
export type RuleSwitched = z.infer<typeof RuleSwitched>;

export const DetectionStats = z.object({
  kind,
  rules: z.array(z.object({ id: z.string(), pack_id: z.string(), scope, ...counters })),
  sync: z.object({
    target_count: z.int().describe("running VMs"),
    synced_count: z.int().describe("running VMs with the current detections"),
    failed_session_ids: z.array(z.string()),
    last_sync_unix_ms: z.int().nullable(),
  }),
}).openapi("DetectionStats");
export type DetectionStats = z.infer<typeof DetectionStats>;

/** A step in the life of a finding. */
const stateShape = {
  status: z.enum(["acknowledged", "closed"]),
  verdict: z.enum(["true-positive", "false-positive", "accepted"]).optional().describe(
    "verdict of a closed finding",
  ),
  reason: z.string().min(1).max(1000).optional(),
};

export const FindingState = z.strictObject({
  ...stateShape,
  by: AnsweredBy,
  at: z.iso.datetime(),
}).openapi("FindingState");
export type FindingState = z.infer<typeof FindingState>;

export const FindingStateChange = z.strictObject(stateShape).superRefine(({ status, verdict }, context) => {
  if ((status === "closed") === (verdict !== undefined)) return;
  const message = status === "closed" ? "is required to close" : "is of a closed finding";
  context.addIssue({ code: "custom", path: ["verdict"], message });
});
export type FindingStateChange = z.infer<typeof FindingStateChange>;

export const FindingStates = z.object({ findings: z.array(z.string()).describe("ids of the findings") })
  .openapi("FindingStates");
export type FindingStates = z.infer<typeof FindingStates>;

/** Longest time of an exception, in days. */
const EXCEPTION_DAYS_MAX = 366;

export const FindingExcept = z.strictObject({
  finding: z.string().describe("id of a finding, or of its event"),
  of: z.array(z.enum(["host", "program", "vm"])).min(1).describe(
    "properties of the finding that all have to agree",
  ),
  days: z.int().min(1).max(EXCEPTION_DAYS_MAX).default(30),
  reason: z.string().min(1).max(1000),
}).openapi("FindingExcept");
export type FindingExcept = z.infer<typeof FindingExcept>;

export const FindingException = z.object({
  id: z.string(),
  rule: z.string(),
  pack: z.string().optional(),
  host: z.string().optional(),
  program: z.string().optional(),
  vm: z.string().optional(),
  reason: z.string(),
  by: z.string().optional(),
  expires: z.iso.datetime(),
}).openapi("FindingException");
export type FindingException = z.infer<typeof FindingException>;

export const FindingExceptionList = z.object({ exceptions: z.array(FindingException) })
  .openapi("FindingExceptionList");
export type FindingExceptionList = z.infer<typeof FindingExceptionList>;

export const ListedFinding = FindingView.extend({
  timestamp_unix_ms: z.int().optional().describe("time of the event"),
  event_type: z.string().optional(),
  subject: z.string().optional().describe("subject of the event on one line"),
  decision: z.object({
    outcome: z.enum(FINDING_OUTCOMES).describe(
      "outcome of the event; ask: no one has answered yet, observed: no decision was to be made",
    ),
    rule_id: z.string().optional().describe("rule that decided"),
    layer: z.string().optional(),
    answered_by: z.string().optional().describe("user who answered the ask"),
  }).optional(),
  process: z.string().optional().describe("program of the event, where it is known"),
  vm_name: z.string().optional(),
  states: z.array(FindingState).optional().describe("oldest first; absent for a new finding"),
  exception: z.string().optional().describe("id of the exception that it falls under"),
  group: z.string().optional().describe(
    "id of the first of the findings that belong together, such as the lookups of one name",
  ),
  made_by: z.object({ user: z.string(), device: z.string(), client: z.string() }).optional().describe(
    "maker of the session: user and name of the host, and the program that asked for the VM",
  ),
}).openapi("ListedFinding");
export type ListedFinding = z.infer<typeof ListedFinding>;

export const FindingList = z.object({
  findings: z.array(ListedFinding),
  next_cursor: z.string().optional().describe("cursor of the next page; absent on the last one"),
}).openapi("FindingList");
export type FindingList = z.infer<typeof FindingList>;

/** Findings in one response. */
export const FINDINGS_MAX = 1000;

const tags = ["detection"];

export const detectionRoutes = {
  validate: createRoute({
    method: "post",
    path: "/detection/validate",
    tags,
    request: body(PackBody),
    responses: answers("diagnostics of a pack's envelope", PackValidation),
  }),
  compile: createRoute({
    method: "post",
    path: "/detection/compile",
    tags,
    request: body(PackBody),
    responses: answers("the compiled IR of a pack", PackCompiled),
  }),
  backtest: createRoute({
    method: "post",
    path: "/detection/backtest",
    tags,
    request: body(BacktestRequest),
    responses: answers("matches of detections over the events", EvidenceResult),
  }),
  list: createRoute({
    method: "get",
    path: "/detection",
    tags,
    responses: answers("active detections with their match counters", DetectionList),
  }),
  put: createRoute({
    method: "post",
    path: "/detection",
    tags,
    request: body(OverlayRequest),
    responses: answers("the runtime overlay, and its propagation to running VMs", OverlaySaved),
  }),
  delete: createRoute({
    method: "delete",
    path: "/detection/{id}",
    tags,
    request: {
      params: z.object({ id: z.string().min(1).max(256).openapi({ param: { name: "id", in: "path" } }) }),
    },
    responses: answers("the runtime overlay is removed", OverlayRemoved),
  }),
  switchRule: createRoute({
    method: "post",
    path: "/detection/rules/{id}/switch",
    tags,
    request: {
      params: z.object({
        id: z.string().min(1).max(RULE_ID_MAX).openapi({ param: { name: "id", in: "path" } }),
      }),
      ...body(RuleSwitch),
    },
    responses: answers("a rule of a pack is on or off, and its propagation to running VMs", RuleSwitched),
  }),
  stats: createRoute({
    method: "get",
    path: "/detection/stats",
    tags,
    responses: answers("match counters, and the running VMs with the current detections", DetectionStats),
  }),
  hunt: createRoute({
    method: "post",
    path: "/sessions/{id}/detection/hunt",
    tags,
    request: { params: VmParam, ...body(HuntRequest) },
    responses: answers("matches of detections over a session's events", EvidenceResult),
  }),
  findings: createRoute({
    method: "get",
    path: "/sessions/{id}/findings",
    tags: ["session"],
    request: {
      params: VmParam,
      query: z.object({
        limit: z.coerce.number().int().min(1).max(FINDINGS_MAX).optional(),
        cursor: z.string().optional(),
        order: z.enum(["oldest", "newest"]).optional(),
      }),
    },
    responses: answers("findings of a session, oldest first unless `order` says otherwise", FindingList),
  }),
  findingState: createRoute({
    method: "post",
    path: "/sessions/{id}/findings/state",
    tags,
    request: {
      params: VmParam,
      ...body(z.strictObject({
        findings: z.array(z.string().min(1).max(400)).min(1).max(FINDINGS_MAX).describe(
          "ids of findings, or of their events",
        ),
        state: FindingStateChange,
      })),
    },
    responses: answers("the findings have the state, and the sinks get it", FindingStates),
  }),
  findingExcept: createRoute({
    method: "post",
    path: "/sessions/{id}/findings/except",
    tags,
    request: { params: VmParam, ...body(FindingExcept) },
    responses: answers("the exception, made from a finding", FindingException),
  }),
  exceptions: createRoute({
    method: "get",
    path: "/findings/exceptions",
    tags,
    responses: answers("exceptions from findings, with expired ones", FindingExceptionList),
  }),
  exceptionDelete: createRoute({
    method: "delete",
    path: "/findings/exceptions/{id}",
    tags,
    request: {
      params: z.object({ id: z.string().min(1).max(64).openapi({ param: { name: "id", in: "path" } }) }),
    },
    responses: answers("the exception is removed", FindingException),
  }),
};
