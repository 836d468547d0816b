/**
 * Guards: hard-coded blocks that no rule can allow, `guard-…` in decision records
 * (docs/design/contracts/05-policy.md §5).
 */
import type { Event } from "../../event/mod.ts";
import type { Decision, Evaluation } from "./decision.ts";

/** A refusal by code, which no rule can change: a request that cannot be read safely, a name that does not fit. */
export interface Refusal {
  /** `guard-<what>`, the rule id of the decision record */
  id: string;
  reason: string;
  /** what would make it pass */
  remedy?: string;
}

/** Guard for an event on which the rules cannot be evaluated at all. */
export const GUARD_EVALUATION = "guard-evaluation";

/** Remedies for guards whose records have none. */
const REMEDIES: Record<string, string> = {
  "guard-connections": "close unused connections and try again",
  "guard-credential":
    "sbx credentials list shows the refs and their hosts; docs/guides/credentials.md explains where a secret may be sent",
  [GUARD_EVALUATION]: "the finding on this event has the error; report it with the rules in force",
  "guard-malformed-tls": "use TLS on this port, with the host name in the ClientHello",
};

/** Decision record of a refusal by a guard, without rules. */
export function guardDecision(event_id: string, { id, reason, remedy }: Refusal): Decision {
  return {
    decision: "block",
    evaluated: 0,
    event_id,
    matched_fields: [],
    near_misses: [],
    ...(remedy !== undefined && { remedy }),
    rewrites: [],
    rule: { id, layer: "default", name: id, reason },
  };
}

/** Block of an event that the rules cannot be evaluated on: fails closed, and reports the error to people. */
export function failedEvaluation(event: Event, error: unknown): Evaluation {
  const { event_id } = event.common;
  const reason = "the rules cannot be evaluated on this event";
  const message = `${reason}: ${error instanceof Error ? error.message : String(error)}`;
  return {
    decision: guardDecision(event_id, { id: GUARD_EVALUATION, reason }),
    findings: [],
    event,
    failures: [{ rule_id: GUARD_EVALUATION, event_id, message }],
  };
}

/** Remedy for a block by a guard. */
export function guardRemedy(ruleId: string): string {
  return REMEDIES[ruleId] ??
    "no rule can allow it; docs/concepts/network.md lists the guards and their reasons";
}
