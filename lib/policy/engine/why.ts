/** Explanation of a decision for people: relevant values, near misses, remedy. */
import { isPrivateHost } from "../../base/address/mod.ts";
import { type Event, familyOf, valueAt } from "../../event/mod.ts";
import type { Decision, MatchedField, NearMiss } from "../decision/mod.ts";
import { resetCost } from "./cel.ts";
import type { CompiledRule } from "./compile.ts";
import type { FlatEvent } from "./field.ts";
import { quote } from "./literal.ts";
import type { Rule } from "./rule.ts";
import { PRIORITY_DEFAULT } from "./rule_term.ts";

/** Maximum length of a value in a record, in characters. */
const VALUE_MAX = 256;
/** Maximum near misses in a record. */
const NEAR_MISSES_MAX = 3;
/** Maximum rules examined for near misses. */
const RULES_EXAMINED_MAX = 64;

/** Field that identifies an event for people, by family. */
const SUBJECT: Record<string, string> = {
  http: "http.request.host",
  dns: "dns.request.qname",
  mcp: "mcp.request.namespaced_tool_name",
  model: "model.request.provider",
  file: "file.activity.path",
  process: "process.activity.executable",
  credential: "credential.substitution.provider",
};

/** Subject of an event: a field and its value. */
export function subjectOf(event: Event): MatchedField {
  const path = SUBJECT[familyOf(event.common.event_type)];
  return { path, value: valueAt(event, path) };
}

/** Values of the given fields, where present. */
export function matchedFields(event: Event, paths: readonly string[]): MatchedField[] {
  const fields: MatchedField[] = [];
  for (const path of paths) {
    const value = valueAt(event, path);
    if (value !== undefined) fields.push({ path, value: shorten(value) });
  }
  return fields;
}

/**
 * The decision with its cut values taken from another form of its event: a value cut in the middle of a secret cannot be
 * scrubbed any more.
 */
export function withValuesOf(decision: Decision, event: Event): Decision {
  const renew = <T extends { path: string; value?: unknown }>(field: T): T =>
    isCut(field.value) ? { ...field, value: shorten(valueAt(event, field.path)) } : field;
  const { matched_fields, near_misses } = decision;
  return { ...decision, matched_fields: matched_fields.map(renew), near_misses: near_misses.map(renew) };
}

/** Finds the rules that failed in the fewest clauses, nearest first. */
export function nearMisses(flat: FlatEvent, rules: readonly CompiledRule[], denied: boolean): NearMiss[] {
  const misses: (NearMiss & { failed_clauses: number; of: number })[] = [];
  let examined = 0;
  for (const { rule, clauses } of relevantRules(rules, denied)) {
    if (examined++ >= RULES_EXAMINED_MAX) break;
    const failed = clauses.filter(({ program }) => !holds(program, flat));
    // At most all but one clause may fail, or the only one.
    if (!failed.length || failed.length > Math.max(1, clauses.length - 1)) continue;
    const { text, path } = failed[0];
    const value = path ? valueAt(flat.event, path) : undefined;
    misses.push({
      rule_id: rule.id,
      failed: shorten(text) as string,
      path,
      ...(value !== undefined && { value: shorten(value) }),
      failed_clauses: failed.length,
      of: clauses.length,
    });
  }
  misses.sort((a, b) => a.failed_clauses - b.failed_clauses || b.of - a.of);
  return misses.slice(0, NEAR_MISSES_MAX).map(({ failed_clauses: _, of: __, ...miss }) => miss);
}

/** Rules that would have reversed the decision: allows for a denial, blocks and asks otherwise. */
function* relevantRules(rules: readonly CompiledRule[], denied: boolean): Generator<CompiledRule> {
  for (const rule of rules) {
    const isAllow = rule.rule.action === "allow";
    if (
      rule.rule.layer !== "default" &&
      (denied ? isAllow : rule.rule.action === "block" || rule.rule.action === "ask")
    ) {
      yield rule;
    }
  }
}

function holds(program: CompiledRule["program"], flat: FlatEvent): boolean {
  resetCost();
  try {
    return program(flat) === true;
  } catch {
    return false;
  }
}

/** Smallest change that would allow the event. */
export function remedyFor(
  event: Event,
  { decision, rule }: Decision,
  decider: Rule | undefined,
  failed: boolean,
): string {
  // People may answer corp's asks too; the record of the answer has its own remedy.
  if (decision === "ask") return "approve it: sbx asks lists pending asks";
  if (rule.layer === "corp") return "only your administrator can change corp rules";
  const place = rule.file ? `${rule.file}:${rule.line}` : `rule "${rule.id}"`;
  if (failed) return `correct ${place}`;
  if (decider?.layer === "profile" && decider.priority <= PRIORITY_DEFAULT.profile) {
    return `change ${place}, or set enabled = false there`;
  }
  const match = rule.id === "block-private-dns" ? answerMatchOf(event) : subjectMatchOf(event);
  const priority = decider?.layer === "profile" ? `, priority = ${decider.priority - 1}` : "";
  return `allow it in the profile: action = "allow"${priority}, match = '${match}'`;
}

/** Match of a rule for events like this one. */
function subjectMatchOf(event: Event): string {
  const { path, value } = subjectOf(event);
  return value === undefined
    ? `common.event_type == ${quote(event.common.event_type)}`
    : `${path} == ${quote(String(value))}`;
}

/** Match of a rule that names the private addresses in a DNS answer: a rule on the name alone does not open them. */
function answerMatchOf(event: Event): string {
  const found = event.dns?.response?.answers.filter(isPrivateHost).map(quote).join(", ");
  return `${subjectMatchOf(event)} && dns.response.answers.exists(answer, answer in [${found}])`;
}

/** True for a value that {@linkcode shorten} cut. */
function isCut(value: unknown): boolean {
  return typeof value === "string" && value.length > VALUE_MAX;
}

function shorten(value: unknown): unknown {
  if (typeof value === "string") return value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX)}…` : value;
  if (value === null || typeof value !== "object") return value;
  const text = JSON.stringify(value);
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : value;
}
