/** What is probably not meant in a set of rules, each with an event that shows it (issue 4). */
import { catalogue, nearest, type PolicyContext } from "../../event/mod.ts";
import { broadTests } from "./broad.ts";
import { type CompiledRule, compileMatch } from "../engine/compile.ts";
import { ALL_TYPES, type Condition, masksOf, type Probe, TYPES, typesOf } from "../engine/condition.ts";
import { implies } from "./implies.ts";
import type { Policy } from "../engine/policy.ts";
import type { Rule } from "../engine/rule.ts";
import { eventOf, holds, witnessOf } from "./witness.ts";

export type LintCode =
  | "unreachable"
  | "hidden-block"
  | "redundant"
  | "contradiction"
  | "broad"
  | "always-true"
  | "never-true"
  | "other-families";

/** One remark. */
export interface Lint {
  code: LintCode;
  severity: "error" | "warning";
  rule_id: string;
  layer: string;
  file?: string;
  line?: number;
  /** the other rule, where two are concerned */
  other_rule_id?: string;
  message: string;
  /** an event that shows it */
  witness?: PolicyContext;
}

/** Most earlier rules that one rule is held against; more are looked up by what they share. */
const PAIRS_MAX = 2_000_000;

/** Remarks on the rules that people wrote; the built-in ones are not looked at. */
export function lintPolicy(policy: Policy): Lint[] {
  const looked = policy.rules.map((compiled): Looked => {
    const { condition } = compileMatch(compiled.rule.match);
    return { compiled, condition, witness: witnessOf(condition, compiled.program) };
  });
  const own = looked.filter(({ compiled }) =>
    compiled.rule.file !== undefined || compiled.rule.layer !== "default"
  );
  const limit = Math.max(50, Math.floor(PAIRS_MAX / Math.max(1, own.length)));
  return own.flatMap((rule, at) => [
    ...alone(rule),
    ...beside(rule, own.slice(Math.max(0, at - limit), at)),
  ]);
}

interface Looked {
  compiled: CompiledRule;
  condition: Condition;
  witness?: PolicyContext;
}

/** What a rule shows by itself. */
function* alone({ compiled, condition, witness }: Looked): Generator<Lint> {
  const { rule, program, paths } = compiled;
  const impossible = neverTrue(condition);
  if (impossible) {
    yield lint("never-true", "error", rule, impossible);
    return;
  }
  const everywhere = TYPES.every((type) => holds(program, eventOf(type)));
  if (everywhere && !witnessOf(condition, program, false)) {
    const message = "its condition is always true: it decides every event that comes so far";
    yield lint("always-true", "warning", rule, message, { witness });
  } else if (paths.length) yield* otherFamilies({ compiled, condition });
  for (const { message, witness: event } of broadTests(condition, program)) {
    yield lint("broad", "warning", rule, message, { witness: event });
  }
}

/** A rule that speaks of one family and, by a negation, matches events of others. */
function* otherFamilies({ compiled: { rule, program, paths }, condition }: Looked): Generator<Lint> {
  const meant = paths.reduce((mask, path) => {
    const types = typesOf(path);
    return types === ALL_TYPES ? mask : mask | types;
  }, 0);
  if (meant === 0) return;
  const { yes } = masksOf(condition);
  const other = TYPES.find((type, bit) => yes & ~meant & 1 << bit && holds(program, eventOf(type)));
  if (!other) return;
  const families = [...new Set(TYPES.filter((_, bit) => meant & 1 << bit).map((type) => type.split(".")[0]))];
  const message = `it also matches ${other} events, which have no ${families.join(" or ")} fields: ` +
    `add has(${families[0]}.${families[0] === "file" || families[0] === "process" ? "activity" : "request"})`;
  yield lint("other-families", "warning", rule, message, { witness: eventOf(other) });
}

/** What a rule shows next to those that are looked at before it. */
function* beside({ compiled, condition, witness }: Looked, earlier: readonly Looked[]): Generator<Lint> {
  const { rule } = compiled;
  for (const { compiled: other, condition: before } of earlier) {
    if (other.rule.action === "rewrite" || !(other.types & compiled.types)) continue;
    if (rule.action !== "rewrite" && implies(condition, before)) {
      yield covered(rule, other.rule, witness);
      return;
    }
    if (!contradicts(rule, other.rule)) continue;
    const both: Condition = { kind: "and", parts: [before, condition] };
    const event = sharedEvent(both, compiled, other, witness);
    if (event) {
      const message = `it contradicts ${
        named(other.rule)
      } at the same priority ${rule.priority}: ${other.rule.action} wins over ${rule.action}`;
      yield lint("contradiction", "warning", rule, message, { other: other.rule, witness: event });
    }
  }
}

function covered(rule: Rule, other: Rule, witness: PolicyContext | undefined): Lint {
  const more = { other, witness };
  if (rule.action === other.action) {
    return lint(
      "redundant",
      "warning",
      rule,
      `${named(other)} already says ${rule.action} to all that it matches`,
      more,
    );
  }
  if (rule.action === "block" && other.action === "allow") {
    return lint(
      "hidden-block",
      "error",
      rule,
      `it never blocks: ${named(other)} allows all that it matches, and comes first`,
      more,
    );
  }
  return lint(
    "unreachable",
    "error",
    rule,
    `it never decides: ${named(other)} (${other.action}) comes first and matches all that it does`,
    more,
  );
}

/** One lets go what the other holds back. That a block comes before an ask is what both mean, and no contradiction. */
function contradicts(rule: Rule, other: Rule): boolean {
  return rule.priority === other.priority && rule.layer === other.layer && rule.action !== other.action &&
    [rule, other].some(({ action }) => action === "allow") &&
    [rule, other].some(({ action }) => action === "block" || action === "ask");
}

/** An event that two rules both match: one of theirs, or one made for both. */
function sharedEvent(
  both: Condition,
  a: CompiledRule,
  b: CompiledRule,
  witness: PolicyContext | undefined,
): PolicyContext | undefined {
  if (witness && holds(b.program, witness)) return witness;
  return witnessOf(both, (flat) => a.program(flat) === true && b.program(flat) === true);
}

/** Why a condition can hold on no event, where that is plain. */
function neverTrue(condition: Condition): string | undefined {
  for (const part of condition.kind === "and" ? condition.parts : [condition]) {
    const wrong = part.kind === "test" ? part.probes.map(unknownValue).find((text) => text) : undefined;
    if (wrong) return wrong;
  }
  if (masksOf(condition).yes === 0) {
    return "it can match no event: it asks for fields of two families at once";
  }
  if (condition.kind !== "and") return undefined;
  const wanted = new Map<string, Set<unknown>>();
  for (const part of condition.parts) {
    if (part.kind !== "test") continue;
    for (const { path, op, values } of part.probes) {
      if (op !== "equals") continue;
      const before = wanted.get(path);
      const now = new Set(before ? values.filter((value) => before.has(value)) : values);
      if (!now.size) return `it can match no event: ${path} cannot be two things at once`;
      wanted.set(path, now);
    }
  }
}

/** A value that a field never has. */
function unknownValue({ path, op, values }: Probe): string | undefined {
  const known = catalogue.get(path)?.values;
  if (!known || op !== "equals") return undefined;
  const wrong = values.filter((value) => !known.includes(value as string));
  if (wrong.length < values.length) return undefined;
  const near = nearest(String(wrong[0]), known);
  return `it can match no event: ${path} is never "${wrong[0]}"${
    near ? `; did you mean "${near}"?` : `, but one of ${known.join(", ")}`
  }`;
}

function named({ id, layer, file, line }: Rule): string {
  return `${layer} rule "${id}"${file ? ` (${file}:${line})` : ""}`;
}

function lint(
  code: LintCode,
  severity: Lint["severity"],
  { id, layer, file, line }: Rule,
  message: string,
  { other, witness }: { other?: Rule; witness?: PolicyContext } = {},
): Lint {
  return {
    code,
    severity,
    rule_id: id,
    layer,
    ...(file !== undefined && { file }),
    ...(line !== undefined && { line }),
    ...(other && { other_rule_id: other.id }),
    message,
    ...(witness && { witness }),
  };
}
