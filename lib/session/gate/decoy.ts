/**
 * Refusal of events that carry a decoy past the network's filters: names that
 * are resolved, arguments of tools.
 */
import type { CredentialSubstitution, Event } from "../../event/mod.ts";
import { type Draft, type Evaluation, guardDecision } from "../../policy/mod.ts";

/** Says no more than of any other credential. */
export const DECOY_REFUSAL = {
  id: "guard-credential",
  reason: "it carries a credential, and credentials do not travel there",
};

/** A block that no rule can lift. */
export function decoyEvaluation(event: Event): Evaluation {
  const decision = guardDecision(event.common.event_id, DECOY_REFUSAL);
  return { decision, findings: [], event, failures: [] };
}

/** Event of the denial, which makes the finding. */
export function decoyDraft(event: Event, substitution: CredentialSubstitution): Draft {
  const { event_id, actor, process, source_engine, trace_id } = event.common;
  return {
    common: {
      event_type: "credential.substitution",
      source_engine,
      actor,
      ...(process && { process }),
      ...(trace_id !== undefined && { trace_id }),
      labels: { event_id },
    },
    credential: { substitution },
  };
}
