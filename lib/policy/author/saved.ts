/** Rules made of answers: later events like an asked one pass without a question (docs/contracts.md §5, "Asks"). */
import { SbxError } from "../../base/error/mod.ts";
import { type Event, familyOf, valueAt } from "../../event/mod.ts";
import { COVERED, scopeOf } from "../ask/scope.ts";
import { quote } from "../engine/literal.ts";
import { PRIORITY_DEFAULT, type Rule } from "../engine/rule.ts";
import type { RuleTable } from "./schema.ts";

/** A rule to save in a profile. */
export interface SavedRule {
  id: string;
  rule: RuleTable;
}

/**
 * The rule for events that an answer to the ask about `event` covers: an allow before the rule that asks, or that rule
 * without these events, where an allow of the same priority would lose.
 *
 * @param event as recorded
 * @throws {SbxError} `policy.blocked`: corp asks; `ask.invalid`: the event has no scope
 */
export function savedRule(event: Event, asking: Rule): SavedRule {
  if (asking.layer === "corp") {
    throw new SbxError("policy.blocked", `the corp rule "${asking.id}" asks each time`, {
      hint: "only your administrator can change corp rules",
    });
  }
  const scope = scopeOf(event, asking);
  if (!scope) {
    throw new SbxError("ask.invalid", "the event is too long for a rule that covers events like it", {
      hint: "write a rule yourself: docs/policy.md",
    });
  }
  const match = matchOf(event);
  if (asking.layer === "profile" && asking.priority <= PRIORITY_DEFAULT.profile) {
    const { id, layer: _, file: __, line: ___, match_line: ____, ...rule } = asking;
    return { id, rule: { ...rule, match: `(${asking.match}) && !(${match})` } };
  }
  const priority = asking.layer === "profile" ? { priority: asking.priority - 1 } : {};
  const reason = `answered once, instead of rule "${asking.id}"`;
  const id = `saved-${event.common.event_id}`;
  return {
    id,
    rule: { name: scope.covers.slice(0, 200), action: "allow", match, enabled: true, ...priority, reason },
  };
}

/** CEL for the events that an answer covers. */
function matchOf(event: Event): string {
  const { event_type } = event.common;
  const tests = COVERED[familyOf(event_type)].map((path) => testOf(path, valueAt(event, path)));
  return [`common.event_type == ${quote(event_type)}`, ...tests, ...gitTests(event)].join(" && ");
}

function testOf(path: string, value: unknown): string {
  return value === undefined ? `!has(${path})` : `${path} == ${literalOf(value)}`;
}

function gitTests({ http }: Event): string[] {
  const git = http?.request.git;
  if (!git) return [];
  const refs = git.updates.map(({ kind, ref }) =>
    `update.kind == ${quote(kind)} && update.ref == ${quote(ref)}`
  );
  return [
    `http.request.git.service == ${quote(git.service)}`,
    `http.request.git.updates.all(update, ${refs.length ? refs.join(" || ") : "false"})`,
  ];
}

function literalOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literalOf).join(", ")}]`;
  return typeof value === "string" ? quote(value) : String(value);
}
