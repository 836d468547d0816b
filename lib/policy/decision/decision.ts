/** Decisions of policy on events (docs/design/contracts/05-policy.md §5). */
import type { z } from "zod";
import type { Event, Finding } from "../../event/mod.ts";
import type { Rule } from "../engine/rule.ts";
import type * as schema from "./schema.ts";

/** True for the rule id of a guard. */
export function isGuard(ruleId: string): boolean {
  return ruleId.startsWith("guard-");
}

export type MatchedField = z.infer<typeof schema.MatchedField>;
export type NearMiss = z.infer<typeof schema.NearMiss>;
export type AppliedRewrite = z.infer<typeof schema.AppliedRewrite>;
export type DecidingRule = z.infer<typeof schema.DecidingRule>;
export type Answered = z.infer<typeof schema.Answered>;
/** Decision record, the same object for the ledger, the CLI and the API; a guest gets a part of it. */
export type Decision = z.infer<typeof schema.Decision>;

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
  findings: Finding[];
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
