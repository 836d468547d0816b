/**
 * The decision on the event of a finding, in one word (docs/design/contracts/06-detection.md §6, "Finding").
 */
import type { Event, FindingDecision } from "../../event/mod.ts";
import type { Decision } from "./decision.ts";

/**
 * @param decision the final one, with the answer to an ask; absent where no rule decided
 */
export function findingDecision(event: Event, decision: Decision | undefined): FindingDecision {
  if (!decision) return { outcome: outcomeOfBroker(event) };
  const { rule, answered } = decision;
  return {
    outcome: outcomeOf(decision),
    rule_id: rule.id,
    layer: rule.layer,
    ...(answered?.by && { answered_by: answered.by.user }),
  };
}

function outcomeOf({ decision, rewrites, answered }: Decision): FindingDecision["outcome"] {
  if (answered) return `ask-${answered.status}`;
  return decision === "allow" && rewrites.length > 0 ? "rewritten" : decision;
}

/** The broker decides on a secret without a rule. */
function outcomeOfBroker({ credential }: Event): FindingDecision["outcome"] {
  const outcome = credential?.substitution.outcome;
  return outcome === "denied" || outcome === "error" ? "block" : "observed";
}
