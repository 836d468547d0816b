/**
 * Rules made of answers: later events like an asked one pass without a question
 * (docs/design/contracts/05-policy.md §5, "Asks").
 */
import { SbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import { coveredMatch, scopeOf } from "../ask/scope.ts";
import type { Rule } from "../engine/rule.ts";
import { PRIORITY_DEFAULT } from "../engine/rule_term.ts";
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
      hint: "write a rule yourself: docs/guides/policy.md",
    });
  }
  const match = coveredMatch(event);
  if (asking.layer === "profile" && asking.priority <= PRIORITY_DEFAULT.profile) {
    const { id, layer: _, file: __, line: ___, match_line: ____, ...rule } = asking;
    return { id, rule: { ...rule, match: `(${asking.match}) && !(${match})` } };
  }
  const priority = asking.layer === "profile" ? { priority: asking.priority - 1 } : {};
  const reason = `answered once, instead of rule "${asking.id}"`;
  const id = `saved-${event.common.event_id}`;
  return {
    id,
    rule: {
      name: scope.covers.slice(0, 200),
      action: "allow",
      match,
      enabled: true,
      ...priority,
      reason,
      ...(asking.protocol !== undefined && { protocol: asking.protocol }),
    },
  };
}
