/**
 * Plan `sbx.sigma-plan.v1` (docs/design/contracts/06-detection.md §6): Sigma rules in compiled form, as they
 * travel to the matchers. Loads no zod and no parser: `plan_schema.ts` validates plans from outside.
 */
import type { Confidence, Owner, PackStatus, Severity } from "../ir/ir.ts";

export const PLAN_SCHEMA = "sbx.sigma-plan.v1";

// Limits of rules (docs/design/contracts/14-limits.md §14).

/** Maximum rules of a plan, with its correlations. */
export const PLAN_RULES_MAX = 20_000;
/** Maximum values of a rule, after modifiers such as `windash` have multiplied them. */
export const RULE_VALUES_MAX = 10_000;
/** Maximum characters of a value. */
export const TEXT_MAX = 8192;
/** Maximum selections of a rule. */
export const SELECTIONS_MAX = 500;
/** Maximum selections of a rule with the ones of its filters. */
export const ALL_SELECTIONS_MAX = 20 * SELECTIONS_MAX;
/** Maximum tokens of a condition, and its nodes once `1 of` and `all of` are written out. */
export const CONDITION_MAX = 5000;
/** Maximum nesting of a condition. */
export const NESTING_MAX = 64;
/** Maximum characters of a regular expression, and its compiled instructions. */
export const REGEX_MAX = 4096;
export const REGEX_PROGRAM_MAX = 10_000;
/** Maximum characters of a source of a field. */
export const SOURCE_MAX = 512;
/** Maximum fields of a correlation's group. */
export const GROUP_MAX = 64;
/** Maximum rules to which filters add their conditions, each counted for every filter. */
export const FILTERED_MAX = 20_000;
/** Longest time that a correlation may look back, in `ms`: 30 days. */
export const TIMESPAN_MAX_MS = 30 * 24 * 3600 * 1000;
/** Maximum events or values that a correlation counts. */
export const COUNT_MAX = 10_000;

/** Literal, `0` for `*`, `1` for `?`. */
export type GlobPart = string | 0 | 1;

/** Comparison of a number. */
export type NumberOperator = "lt" | "lte" | "gt" | "gte";

/** Position of a text within a value. */
export type TextPosition = "is" | "has" | "begins" | "ends";

/**
 * Test of one value. Texts are folded ({@linkcode file://./run/fold.ts}) unless `cased`.
 */
export type PlanTest =
  | { t: "text"; at: TextPosition; text: string; cased?: true }
  | { t: "glob"; parts: GlobPart[]; cased?: true }
  | { t: "re"; re: string; flags: string }
  | { t: "cidr"; net: string }
  | { t: "number"; op: NumberOperator; n: number }
  | { t: "null" }
  | { t: "present" }
  | { t: "ref"; at: TextPosition; on: string[]; cased?: true };

/** Boolean expression over an event. */
export type PlanExpr =
  | boolean
  | { all: PlanExpr[] }
  | { any: PlanExpr[] }
  | { not: PlanExpr }
  /** selection of the rule, by its place */
  | { sel: number }
  /**
   * some test holds for some value of the first source that is there; `every`: each test holds for some value
   */
  | { on: string[]; is: PlanTest[]; every?: true }
  /** as `on`, over every text of the event */
  | { words: PlanTest[]; every?: true };

/** What rules and correlations of a plan have in common with rules of the IR. */
export interface PlanMeta {
  id: string;
  source_id: string;
  /** UUID */
  sigma_id?: string;
  title: string;
  severity: Severity;
  confidence: Confidence;
  tags: string[];
}

/** Sigma rule. */
export interface PlanRule extends PlanMeta {
  event_types: string[];
  selections: PlanExpr[];
  condition: PlanExpr;
  /** waits for the response of an event that gets one */
  reads_response?: true;
  /** only correlations use it: its matches are no findings */
  silent?: true;
}

export const CORRELATION_TYPES = [
  "event_count",
  "value_count",
  "value_sum",
  "temporal",
  "temporal_ordered",
] as const;
export type CorrelationType = typeof CORRELATION_TYPES[number];

export const COUNT_OPERATORS = ["lt", "lte", "gt", "gte", "eq", "neq"] as const;
export type CountCondition = Partial<Record<typeof COUNT_OPERATORS[number], number>>;

/** Sigma correlation. */
export interface PlanCorrelation extends PlanMeta {
  type: CorrelationType;
  /** ids of rules and of earlier correlations of the plan */
  rules: string[];
  timespan_ms: number;
  count: CountCondition;
  /** sources of the group's fields, by the rule that matched the event */
  group_by: Record<string, string[][]>;
  /** sources of the counted field of `value_count`, or of the summed one of `value_sum`, by rule */
  field?: Record<string, string[]>;
  silent?: true;
}

export interface SigmaPlan {
  schema: typeof PLAN_SCHEMA;
  pack_id: string;
  pack_version: string;
  pack_status: PackStatus;
  owner: Owner;
  rules: PlanRule[];
  correlations: PlanCorrelation[];
}

/** Rule or correlation that makes findings. */
export type PlanEntry = PlanRule | PlanCorrelation;

/** Rules and correlations of a plan, in the order of their findings. */
export function entriesOf({ rules, correlations }: SigmaPlan): PlanEntry[] {
  return [...rules, ...correlations].filter(({ silent }) => !silent);
}

/** Every source that an expression reads. */
export function sourcesOf(expr: PlanExpr): string[] {
  if (typeof expr === "boolean" || "sel" in expr || "words" in expr) return [];
  if ("all" in expr) return expr.all.flatMap(sourcesOf);
  if ("any" in expr) return expr.any.flatMap(sourcesOf);
  if ("not" in expr) return sourcesOf(expr.not);
  return [...expr.on, ...expr.is.flatMap((test) => test.t === "ref" ? test.on : [])];
}

/**
 * Event path of a source: `http.request.headers[host]` → `http.request.headers`; `undefined` if it has none.
 */
export function pathOf(source: string): string | undefined {
  return source.startsWith("=") || source.startsWith("parent.") ? undefined : source.split(/[[#]/, 1)[0];
}
