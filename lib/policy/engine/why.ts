/** What people are told of a decision: which values mattered, what nearly matched, what to do. */
import { type Event, familyOf, valueAt } from "../../event/mod.ts";
import { resetCost } from "./cel.ts";
import type { CompiledRule } from "./compile.ts";
import type { Decision, MatchedField, NearMiss } from "./decision.ts";
import type { FlatEvent } from "./flat.ts";
import { quoted } from "./lower.ts";
import { PRIORITY_DEFAULT, type Rule } from "./rule.ts";

/** Longest text of a value in a record. */
const VALUE_MAX = 256;
/** Most near misses of a record, and most rules that are looked at for them. */
const NEAR_SHOWN = 3;
const NEAR_LOOKED = 64;

/** The field by which people name an event of a family. */
const SUBJECT: Record<string, string> = {
  http: "http.request.host",
  dns: "dns.request.qname",
  mcp: "mcp.request.namespaced_tool_name",
  model: "model.request.provider",
  file: "file.activity.path",
  process: "process.activity.executable",
  credential: "credential.substitution.provider",
};

/** What an event is about: a field and its value. */
export function subjectOf(event: Event): MatchedField {
  const path = SUBJECT[familyOf(event.common.event_type)];
  return { path, value: valueAt(event, path) };
}

/** The values of those fields that the event has. */
export function matchedFields(event: Event, paths: readonly string[]): MatchedField[] {
  const fields: MatchedField[] = [];
  for (const path of paths) {
    const value = valueAt(event, path);
    if (value !== undefined) fields.push({ path, value: shortened(value) });
  }
  return fields;
}

/** Rules that failed in the fewest clauses, at most in one of several; the nearest first. */
export function nearMisses(flat: FlatEvent, rules: readonly CompiledRule[], denied: boolean): NearMiss[] {
  const found: (NearMiss & { failed_clauses: number; of: number })[] = [];
  let looked = 0;
  for (const { rule, clauses } of useful(rules, denied)) {
    if (looked++ >= NEAR_LOOKED) break;
    const failed = clauses.filter(({ program }) => !holds(program, flat));
    // A rule of one clause that fails is not near, unless it is all that there is.
    if (!failed.length || failed.length > Math.max(1, clauses.length - 1)) continue;
    const { text, path } = failed[0];
    const value = path ? valueAt(flat.event, path) : undefined;
    found.push({
      rule_id: rule.id,
      failed: text,
      path,
      ...(value !== undefined && { value: shortened(value) }),
      failed_clauses: failed.length,
      of: clauses.length,
    });
  }
  found.sort((a, b) => a.failed_clauses - b.failed_clauses || b.of - a.of);
  return found.slice(0, NEAR_SHOWN).map(({ failed_clauses: _, of: __, ...miss }) => miss);
}

/** To a denial rules that would have allowed are near, to the rest those that would have denied. */
function* useful(rules: readonly CompiledRule[], denied: boolean): Generator<CompiledRule> {
  for (const rule of rules) {
    const allows = rule.rule.action === "allow";
    if (
      rule.rule.layer !== "default" &&
      (denied ? allows : rule.rule.action === "block" || rule.rule.action === "ask")
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

/** The smallest change after which the event would pass. */
export function remedyFor(
  event: Event,
  { decision, rule }: Decision,
  decider: Rule | undefined,
  failed: boolean,
): string {
  // A person may answer what corp asks about, too; what becomes of it is said when it is over (answer.ts).
  if (decision === "ask") return "approve it: sbx asks lists what waits";
  if (rule.layer === "corp") return "only your administrator can change corp rules";
  const place = rule.file ? `${rule.file}:${rule.line}` : `rule "${rule.id}"`;
  if (failed) return `correct ${place}`;
  if (decider?.layer === "profile" && decider.priority <= PRIORITY_DEFAULT.profile) {
    return `change ${place}, or set enabled = false there`;
  }
  const { path, value } = subjectOf(event);
  const match = value === undefined
    ? `common.event_type == ${quoted(event.common.event_type)}`
    : `${path} == ${quoted(String(value))}`;
  const priority = decider?.layer === "profile" ? `, priority = ${decider.priority - 1}` : "";
  return `allow it in the profile: action = "allow"${priority}, match = '${match}'`;
}

function shortened(value: unknown): unknown {
  if (typeof value === "string") return value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX)}…` : value;
  if (value === null || typeof value !== "object") return value;
  const text = JSON.stringify(value);
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : value;
}
