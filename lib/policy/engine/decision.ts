/** What policy says of an event (contracts.md §5). */
import type { Event } from "../../event/mod.ts";
import { isGuard } from "./guard.ts";
import type { Layer } from "./rule.ts";

/** A field that the deciding rule looked at, with the event's value; long text is cut. */
export interface MatchedField {
  path: string;
  value: unknown;
}

/** A rule that would have matched but for one clause. */
export interface NearMiss {
  rule_id: string;
  /** the clause, as it is written */
  failed: string;
  path: string;
  /** the event's value; absent when the event has none */
  value?: unknown;
}

/** One change that was made to the event. */
export interface AppliedRewrite {
  rule_id: string;
  op: string;
  path: string;
}

/** The rule that decided. */
export interface DecidingRule {
  id: string;
  name: string;
  layer: Layer | "none";
  file?: string;
  line?: number;
  reason?: string;
}

/** How an ask ended. */
export interface Answered {
  /** `expired` when nobody answered */
  status: "allowed" | "denied" | "expired";
  /** the ask that was answered: an earlier one where its answer covers this event too */
  ask_id: string;
  /** ISO 8601 */
  at: string;
  /** milliseconds that the ask had waited by then */
  waited_ms: number;
  /** what the answer covers; absent when there was none */
  scope?: "once" | "session" | "minutes";
  /** with scope `minutes` */
  minutes?: number;
  /** who answered, where that is known */
  by?: string;
}

/** The decision record: the same object answers the CLI, the API and the guest. */
export interface Decision {
  event_id: string;
  decision: "allow" | "ask" | "block";
  rule: DecidingRule;
  matched_fields: MatchedField[];
  rewrites: AppliedRewrite[];
  /** rules whose expression was run; the index rules out the others */
  evaluated: number;
  near_misses: NearMiss[];
  /** the smallest change that would let the event pass; only on a denial */
  remedy?: string;
  /** what became of it, when it was asked about */
  answered?: Answered;
}

/** A finding of an enforcement rule with a detection_level (contracts.md §6). */
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

/** A rule that could not be run on an event. */
export interface RuleFailure {
  rule_id: string;
  event_id: string;
  message: string;
}

/** All that evaluating one event gives. */
export interface Evaluation {
  decision: Decision;
  findings: PolicyFinding[];
  /** the event with its rewrites; the same object when there are none */
  event: Event;
  /** rules that failed; the event was blocked if one of them could have decided */
  failures: RuleFailure[];
}

/** One line that says why, for the guest's terminal and the CLI. */
export function summary({ decision, rule, remedy }: Decision): string {
  const said = { allow: "allowed", ask: "waits for approval", block: "blocked" }[decision];
  const by = isGuard(rule.id)
    ? `"${rule.id}"`
    : rule.layer === "none"
    ? "no rule matched"
    : `${rule.layer} rule "${rule.id}"`;
  return `${said} by policy: ${rule.reason ?? rule.name} (${by})${remedy ? `; ${remedy}` : ""}`;
}
