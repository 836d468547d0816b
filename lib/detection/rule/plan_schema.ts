/** Zod schema of plans of Sigma rules, to validate plans from outside; `plan.ts` has the types. */
import { z } from "zod";
import {
  CONFIDENCES,
  OWNERS,
  PACK_STATUSES,
  SEVERITIES,
  TAG_MAX,
  TAGS_MAX,
  TITLE_MAX,
  UUID,
} from "../ir/ir.ts";
import {
  ALL_SELECTIONS_MAX,
  CONDITION_MAX,
  CORRELATION_TYPES,
  COUNT_OPERATORS,
  type CountCondition,
  GROUP_MAX,
  NESTING_MAX,
  PLAN_RULES_MAX,
  PLAN_SCHEMA,
  type PlanExpr,
  type PlanTest,
  REGEX_MAX,
  RULE_VALUES_MAX,
  type SigmaPlan,
  SOURCE_MAX,
  TIMESPAN_MAX_MS,
} from "./plan.ts";
import { isSource } from "./run/source.ts";

/** Most sources of a field. */
const SOURCES_MAX = 16;

const Sources = z.array(z.string().min(1).max(SOURCE_MAX).refine(isSource, "is not a source")).max(
  SOURCES_MAX,
);
const At = z.enum(["is", "has", "begins", "ends"]);
const Cased = z.literal(true).optional();

const PlanTestSchema: z.ZodType<PlanTest> = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("text"), at: At, text: z.string(), cased: Cased }),
  z.strictObject({
    t: z.literal("glob"),
    parts: z.array(z.union([z.string(), z.literal(0), z.literal(1)])),
    cased: Cased,
  }),
  z.strictObject({
    t: z.literal("re"),
    re: z.string().max(REGEX_MAX),
    flags: z.string().regex(/^[ims]{0,3}$/),
  }),
  z.strictObject({ t: z.literal("cidr"), net: z.string().max(64) }),
  z.strictObject({ t: z.literal("number"), op: z.enum(["lt", "lte", "gt", "gte"]), n: z.number() }),
  z.strictObject({ t: z.literal("null") }),
  z.strictObject({ t: z.literal("present") }),
  z.strictObject({ t: z.literal("ref"), at: At, on: Sources, cased: Cased }),
]) as z.ZodType<PlanTest>;

const Tests = z.array(PlanTestSchema).max(RULE_VALUES_MAX);
const Every = z.literal(true).optional();

const PlanExprSchema: z.ZodType<PlanExpr> = z.lazy(() =>
  // The most frequent come first: a form that does not fit costs more than one that does.
  z.union([
    z.strictObject({ on: Sources, is: Tests, every: Every }),
    z.strictObject({ sel: z.int().min(0) }),
    z.strictObject({ not: PlanExprSchema }),
    z.strictObject({ all: z.array(PlanExprSchema).max(CONDITION_MAX) }),
    z.strictObject({ any: z.array(PlanExprSchema).max(RULE_VALUES_MAX) }),
    z.strictObject({ words: Tests, every: Every }),
    z.boolean(),
  ])
) as z.ZodType<PlanExpr>;

const Silent = z.literal(true).optional();

const meta = {
  id: z.string().regex(/^[a-z0-9][a-z0-9_.-]{2,199}$/),
  source_id: z.string().min(1).max(4096),
  sigma_id: z.string().regex(UUID).optional(),
  title: z.string().min(1).max(TITLE_MAX),
  severity: z.enum(SEVERITIES),
  confidence: z.enum(CONFIDENCES),
  tags: z.array(z.string().min(1).max(TAG_MAX)).max(TAGS_MAX),
};

const PlanRuleSchema = z.strictObject({
  ...meta,
  event_types: z.array(z.string().min(1).max(64)).max(SOURCES_MAX),
  selections: z.array(PlanExprSchema).max(ALL_SELECTIONS_MAX),
  condition: PlanExprSchema,
  reads_response: Silent,
  silent: Silent,
});

const CountSchema = z.strictObject(
  Object.fromEntries(COUNT_OPERATORS.map((operator) => [operator, z.int().min(0).optional()])),
) as unknown as z.ZodType<CountCondition>;

const PlanCorrelationSchema = z.strictObject({
  ...meta,
  type: z.enum(CORRELATION_TYPES),
  rules: z.array(z.string()).min(1).max(PLAN_RULES_MAX),
  timespan_ms: z.int().min(1).max(TIMESPAN_MAX_MS),
  count: CountSchema,
  group_by: z.record(z.string(), z.array(Sources).max(GROUP_MAX)),
  field: z.record(z.string(), Sources).optional(),
  silent: Silent,
});

export const PlanSchema: z.ZodType<SigmaPlan> = z.strictObject({
  schema: z.literal(PLAN_SCHEMA),
  pack_id: z.string().regex(/^[a-z0-9][a-z0-9_.-]{2,127}$/),
  pack_version: z.string().min(1).max(128),
  pack_status: z.enum(PACK_STATUSES),
  owner: z.enum(OWNERS),
  rules: z.array(PlanRuleSchema).max(PLAN_RULES_MAX),
  correlations: z.array(PlanCorrelationSchema).max(PLAN_RULES_MAX),
}).superRefine(({ rules }, context) => {
  rules.forEach(({ selections, condition }, at) => {
    if (isGood(condition, selections.length) && selections.every((selection) => isGood(selection, 0))) return;
    context.addIssue({
      code: "custom",
      path: ["rules", at],
      message: "names a selection that it does not have",
    });
  });
}) as z.ZodType<SigmaPlan>;

/** Every selection named is there, and selections name none, so that no selection contains itself. */
function isGood(expr: PlanExpr, selections: number, depth = 0): boolean {
  if (typeof expr === "boolean") return true;
  if (depth > 2 * NESTING_MAX) return false;
  if ("sel" in expr) return expr.sel < selections;
  const inner = "all" in expr ? expr.all : "any" in expr ? expr.any : "not" in expr ? [expr.not] : [];
  return inner.every((part) => isGood(part, selections, depth + 1));
}
