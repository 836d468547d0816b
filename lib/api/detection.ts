/** Routes of detections (spec.md, "Detection"; contracts.md §6). */
import { createRoute, z } from "@hono/zod-openapi";
import { IrRuleSchema, IrSchema } from "../detection/ir_schema.ts";
import { SigmaInputSchema } from "../detection/live/rule_input.ts";
import { EVIDENCE_ROWS, EVIDENCE_ROWS_MAX } from "../detection/replay/evidence.ts";
import { answers, body, VmParam } from "./common.ts";
import { FindingView } from "./policy.ts";

/** A pack in a request: what is wrong with it is the answer of validate, not an error of the request. */
const PackBody = z.record(z.string(), z.unknown()).describe("sbx.detection-pack.v1").openapi("DetectionPack");

/** A single detection: as Sigma with its mapping, or a rule of the IR. */
const RuleBody = z.union([SigmaInputSchema, IrRuleSchema]).openapi("DetectionRule");

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
  // Made anew: a schema that was made before OpenAPI came to zod does not know it.
  ir: z.strictObject(IrSchema.shape).openapi("DetectionIr"),
  plan: z.string().describe("ir:<blake3 of the IR>"),
}).openapi("DetectionPackCompiled");
export type PackCompiled = z.infer<typeof PackCompiled>;

const EventRef = z.object({
  corpus: z.string(),
  session_id: z.string(),
  event_id: z.string(),
  sequence: z.int(),
  timestamp_unix_ms: z.int(),
});

const limit = z.int().min(1).max(EVIDENCE_ROWS_MAX).default(EVIDENCE_ROWS);

/** Just one of two keys is there. */
function oneOf(a: string, b: string) {
  return (given: Record<string, unknown>, context: z.core.$RefinementCtx) => {
    if ((given[a] === undefined) === (given[b] === undefined)) {
      context.addIssue({ code: "custom", path: [a], message: `give ${a} or ${b}, and not both` });
    }
  };
}

export const BacktestRequest = z.strictObject({
  pack: PackBody.optional(),
  rule: RuleBody.optional(),
  events: z.array(z.strictObject({
    event_ref: EventRef.partial().strict().optional(),
    context: z.record(z.string(), z.unknown()).describe("sbx.policy-context.v1"),
    expected: z.union([z.boolean(), z.array(z.string())]).optional().describe(
      "whether a rule matches, or the labels of those that do: rule id, Sigma id, title or tag",
    ),
  })),
  limit,
}).superRefine(oneOf("pack", "rule")).openapi("DetectionBacktest");
export type BacktestRequest = z.infer<typeof BacktestRequest>;

export const HuntRequest = z.strictObject({
  pack: PackBody.optional(),
  rules: z.array(RuleBody).min(1).optional(),
  limit,
}).superRefine(oneOf("pack", "rules")).openapi("DetectionHunt");
export type HuntRequest = z.infer<typeof HuntRequest>;

export const EvidenceResult = z.object({
  total_matches: z.int().describe("pairs of event and rule"),
  unique_evidence_matches: z.int().describe("distinct evidence signatures"),
  truncated: z.boolean().describe("there are more distinct ones than rows"),
  rows: z.array(z.object({
    event_ref: EventRef,
    rule_id: z.string(),
    pack_id: z.string(),
    evidence_signature: z.string().describe("blake3 of the event's type and subject"),
    matched_fields: z.array(z.object({ path: z.string(), value: z.unknown() })),
    outcome: z.object({
      outcome: z.enum(["matched", "no_match", "mismatch", "error"]),
      message: z.string().optional(),
    }),
  })),
}).openapi("DetectionEvidence");
export type EvidenceResult = z.infer<typeof EvidenceResult>;

const counters = {
  match_count: z.int(),
  last_matched_event: z.string().nullable(),
  last_matched_unix_ms: z.int().nullable(),
};
const scope = z.enum(["profile", "user", "corp", "runtime"]);

export const DetectionView = z.object({
  id: z.string(),
  pack_id: z.string(),
  scope,
  enabled: z.boolean(),
  compiled: z.boolean(),
  ...counters,
  definition: z.unknown(),
}).openapi("Detection");
export type DetectionView = z.infer<typeof DetectionView>;

const kind = z.literal("detection");

export const DetectionList = z.object({ kind, rules: z.array(DetectionView) }).openapi("DetectionList");
export type DetectionList = z.infer<typeof DetectionList>;

/** A runtime overlay: it is added, or replaces the one of the same id. */
export const OverlayRequest = z.strictObject({
  pack: PackBody.optional(),
  rule: RuleBody.optional(),
  enabled: z.boolean().default(true),
}).superRefine(oneOf("pack", "rule")).openapi("DetectionOverlay");
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

export const DetectionStats = z.object({
  kind,
  rules: z.array(z.object({ id: z.string(), pack_id: z.string(), scope, ...counters })),
  sync: z.object({
    target_count: z.int().describe("running VMs"),
    synced_count: z.int().describe("of which have the detections as they are now"),
    failed_session_ids: z.array(z.string()),
    last_sync_unix_ms: z.int().nullable(),
  }),
}).openapi("DetectionStats");
export type DetectionStats = z.infer<typeof DetectionStats>;

export const ListedFinding = FindingView.extend({
  timestamp_unix_ms: z.int().optional().describe("of its event"),
  event_type: z.string().optional(),
  subject: z.string().optional().describe("what its event is about, on one line"),
}).openapi("ListedFinding");
export type ListedFinding = z.infer<typeof ListedFinding>;

export const FindingList = z.object({ findings: z.array(ListedFinding) }).openapi("FindingList");
export type FindingList = z.infer<typeof FindingList>;

/** Most findings of one answer. */
export const FINDINGS_MAX = 1000;

const tags = ["detection"];

export const detectionRoutes = {
  validate: createRoute({
    method: "post",
    path: "/detection/validate",
    tags,
    request: body(PackBody),
    responses: answers("what is wrong with the envelope of a pack", PackValidation),
  }),
  compile: createRoute({
    method: "post",
    path: "/detection/compile",
    tags,
    request: body(PackBody),
    responses: answers("the IR of a pack", PackCompiled),
  }),
  backtest: createRoute({
    method: "post",
    path: "/detection/backtest",
    tags,
    request: body(BacktestRequest),
    responses: answers("what detections say of events", EvidenceResult),
  }),
  list: createRoute({
    method: "get",
    path: "/detection",
    tags,
    responses: answers("detections that are in force, with what they have found", DetectionList),
  }),
  put: createRoute({
    method: "post",
    path: "/detection",
    tags,
    request: body(OverlayRequest),
    responses: answers("the runtime overlay, and how many VMs have it now", OverlaySaved),
  }),
  delete: createRoute({
    method: "delete",
    path: "/detection/{id}",
    tags,
    request: {
      params: z.object({ id: z.string().min(1).max(256).openapi({ param: { name: "id", in: "path" } }) }),
    },
    responses: answers("the runtime overlay is gone", OverlayRemoved),
  }),
  stats: createRoute({
    method: "get",
    path: "/detection/stats",
    tags,
    responses: answers("what was found, and which VMs have the detections as they are now", DetectionStats),
  }),
  hunt: createRoute({
    method: "post",
    path: "/sessions/{id}/detection/hunt",
    tags,
    request: { params: VmParam, ...body(HuntRequest) },
    responses: answers("what detections say of a session's events", EvidenceResult),
  }),
  findings: createRoute({
    method: "get",
    path: "/sessions/{id}/findings",
    tags: ["session"],
    request: {
      params: VmParam,
      query: z.object({ limit: z.coerce.number().int().min(1).max(FINDINGS_MAX).optional() }),
    },
    responses: answers("findings of a session, in the order in which they were made", FindingList),
  }),
};
