/** Decisions of policy on events (docs/contracts.md §5). */
import type { Event } from "../../event/mod.ts";
import type { AnsweredBy } from "../ask/schema.ts";
import type { Layer, Rule } from "../engine/rule.ts";
import { isGuard } from "./guard.ts";

/** Field tested by the deciding rule, with the event's value; long text is truncated. */
export interface MatchedField {
  path: string;
  value: unknown;
}

/** Rule that failed to match by few clauses. */
export interface NearMiss {
  rule_id: string;
  /** text of the first failed clause */
  failed: string;
  path: string;
  /** the event's value, if present */
  value?: unknown;
}

/** Change made to the event. */
export interface AppliedRewrite {
  rule_id: string;
  op: string;
  path: string;
}

/** Deciding rule. */
export interface DecidingRule {
  id: string;
  name: string;
  layer: Layer | "none";
  file?: string;
  line?: number;
  reason?: string;
}

/** Outcome of an ask. */
export interface Answered {
  /** `expired` without an answer */
  status: "allowed" | "denied" | "expired";
  /** answered ask; an earlier one if its answer covers this event */
  ask_id: string;
  /** ISO 8601 */
  at: string;
  /** time from the ask to the answer, in `ms` */
  waited_ms: number;
  /** scope of the answer; absent without one */
  scope?: "once" | "session" | "minutes";
  /** duration in `min`, with scope `minutes` */
  minutes?: number;
  /** who answered; absent when nobody did */
  by?: AnsweredBy;
}

/** Decision record, the same object for the CLI, the API and the guest. */
export interface Decision {
  event_id: string;
  decision: "allow" | "ask" | "block";
  rule: DecidingRule;
  matched_fields: MatchedField[];
  rewrites: AppliedRewrite[];
  /** number of rules run; the index excludes the others */
  evaluated: number;
  near_misses: NearMiss[];
  /** smallest change that would allow the event; only on a denial */
  remedy?: string;
  /** outcome of the ask, if there was one */
  answered?: Answered;
}

/** Finding of an enforcement rule with a detection_level (docs/contracts.md §6). */
export interface PolicyFinding {
  finding_id: string;
  event_id: string;
  rule_id: string;
  /** `policy.<layer>` */
  pack_id: string;
  title: string;
  severity: "info" | "low" | "medium" | "high" | "critical";
  confidence: "high";
  tags: string[];
}

/** Evaluation error of a rule on an event. */
export interface RuleFailure {
  rule_id: string;
  event_id: string;
  message: string;
}

/** Result of evaluating one event. */
export interface Evaluation {
  decision: Decision;
  /** deciding rule; absent for a guard, and where no rule matched */
  decider?: Rule;
  findings: PolicyFinding[];
  /** event with its rewrites; the same object without any */
  event: Event;
  /** rules that failed; the event is blocked if one of them could have decided */
  failures: RuleFailure[];
}

/** Summarizes a decision in one line, for the guest's terminal and the CLI. */
export function summary({ decision, rule, remedy }: Decision): string {
  const outcome = { allow: "allowed", ask: "waits for approval", block: "blocked" }[decision];
  const by = isGuard(rule.id)
    ? `"${rule.id}"`
    : rule.layer === "none"
    ? "no rule matched"
    : `${rule.layer} rule "${rule.id}"`;
  return `${outcome} by policy: ${rule.reason ?? rule.name} (${by})${remedy ? `; ${remedy}` : ""}`;
}
