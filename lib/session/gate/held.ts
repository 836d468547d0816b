/** Evaluations of events that a finding holds back. */
import type { Event, Finding } from "../../event/mod.ts";
import { type Evaluation, guardDecision, type Refusal } from "../../policy/mod.ts";

/** Answer to an event while a finding holds the network back. */
export interface HeldBack {
  on: "block" | "ask";
  refusal: Refusal;
}

/** Holds events back after findings. */
export interface EventHold {
  /** @returns undefined for an event that is not held back */
  of(event: Pick<Event, "common">): HeldBack | undefined;
  /** new findings; their hold is in force when this returns */
  found(findings: readonly Finding[]): void;
}

/** A block that no rule can lift, or a question instead of an allowance. */
export function heldEvaluation(
  evaluation: Evaluation,
  event: Event,
  { on, refusal: { id, reason, remedy } }: HeldBack,
): Evaluation {
  if (on === "block") {
    const decision = guardDecision(event.common.event_id, { id, reason, remedy });
    return { ...evaluation, event, decider: undefined, decision };
  }
  if (evaluation.decision.decision !== "allow") return evaluation;
  const rule = { id, layer: "default" as const, name: id, reason };
  return {
    ...evaluation,
    decider: undefined,
    decision: { ...evaluation.decision, decision: "ask", matched_fields: [], remedy, rule },
  };
}
