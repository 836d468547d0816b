/** Detections in either compiled form: IR of a pack, or the plan of Sigma rules. */
import { valueAt } from "../event/mod.ts";
import { type DetectionIr, IR_SCHEMA, type IrRule } from "./ir/ir.ts";
import type { Matchable } from "./match/index_node.ts";
import { entriesOf, PLAN_SCHEMA, type PlanEntry, type SigmaPlan, sourcesOf } from "./rule/plan.ts";
import { readerOf } from "./rule/run/source.ts";

export type Compiled = DetectionIr | SigmaPlan;

/** A rule, or a correlation, that makes findings. */
export type CompiledRule = IrRule | PlanEntry;

/** Tests whether detections are Sigma rules. */
export function isPlan(compiled: Compiled): compiled is SigmaPlan {
  return compiled.schema === PLAN_SCHEMA;
}

/** The rules that make findings. */
export function rulesOf(compiled: Compiled): readonly CompiledRule[] {
  return isPlan(compiled) ? entriesOf(compiled) : compiled.rules;
}

/** A pack of rules that are in force, as a list of them has them. */
export function packOfRules(pack_id: string, rules: readonly CompiledRule[]): Compiled {
  const pack = { pack_id, pack_version: "live", pack_status: "active", owner: "user" } as const;
  const own = rules.filter((rule) => "matchers" in rule);
  if (own.length > 0) return { schema: IR_SCHEMA, ...pack, rules: own };
  return {
    schema: PLAN_SCHEMA,
    ...pack,
    rules: rules.filter((rule) => "selections" in rule),
    correlations: rules.filter((rule) => "timespan_ms" in rule),
  };
}

/** Fields that a rule tests, with the event's values. */
export function testedFields(rule: CompiledRule, event: Matchable): { path: string; value: unknown }[] {
  if ("matchers" in rule) {
    return rule.matchers.map(({ field_path: path }) => ({ path, value: valueAt(event, path) }));
  }
  if (!("selections" in rule)) return [];
  const sources = new Set([rule.condition, ...rule.selections].flatMap(sourcesOf));
  const stated = [...sources].filter((source) => !source.startsWith("=") && !source.startsWith("parent."));
  return stated.flatMap((path) => {
    const value = readerOf(path)(event, undefined);
    return value === undefined ? [] : [{ path, value }];
  });
}
