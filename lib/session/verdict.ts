/** What the gate says of events, apart from what it keeps. */
import { type Event, familyOf } from "../event/mod.ts";
import type { Decision, Evaluation, Policy, PolicyFinding, Verdict } from "../policy/mod.ts";

/** Families whose events have an answer that comes later. */
export const ANSWERED: ReadonlySet<string> = new Set(["http", "dns", "mcp", "model"]);

/** By text: a rule that only speaks of responses costs a second look, and none is missed. */
export function reviewedFamilies({ rules }: Policy): ReadonlySet<string> {
  const looking = rules.filter(({ rule }) => rule.match.includes("response"));
  return new Set([...ANSWERED].filter((family) => looking.some(({ rule }) => rule.match.includes(family))));
}

export function unreviewed({ common: { event_id } }: Event): Decision {
  return {
    event_id,
    decision: "allow",
    rule: { id: "none", name: "no rule looks at responses", layer: "none" },
    matched_fields: [],
    rewrites: [],
    evaluated: 0,
    near_misses: [],
  };
}

export function verdictOf({ event, decision }: Pick<Evaluation, "event" | "decision">): Verdict {
  return { allowed: decision.decision === "allow", event, decision };
}

/** The response goes into the object of the event's family, on a copy. */
export function withResponse(event: Event, response: unknown): Event {
  const family = familyOf(event.common.event_type);
  const copy = { ...event, [family]: { ...event[family], response } } as Event;
  return copy;
}

/** A rule that cannot be run is a fault of whoever wrote it, and they should hear of it. */
export function failureFinding(
  { rule_id, event_id, message }: { rule_id: string; event_id: string; message: string },
): PolicyFinding {
  return {
    finding_id: `finding-${event_id}-${rule_id}`,
    event_id,
    rule_id,
    pack_id: "policy.failure",
    title: message,
    severity: "high",
    confidence: "high",
    tags: ["rule-failure"],
  };
}
