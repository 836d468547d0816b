/**
 * A refusal as its guest gets it (docs/design/contracts/05-policy.md §5, "Decision record"): the whole record
 * is for people on the host.
 */
import { ASK_USER } from "../../base/error/mod.ts";
import { type Decision, isGuard } from "./decision.ts";

/** Refusal for a guest: no file, no line, no value of other rules, and no advice to change a rule. */
export interface GuestRefusal {
  /** for the guest's user: `sbx why` shows the record */
  event_id: string;
  decision: "block";
  rule: { id: string; reason: string };
  /** next step for the program in the guest */
  hint: string;
}

/** The part of a denial that its guest receives. */
export function guestRefusal(decision: Decision): GuestRefusal {
  const { event_id, rule } = decision;
  return {
    event_id,
    decision: "block",
    rule: { id: rule.id, reason: rule.reason ?? rule.name },
    hint: hintFor(decision),
  };
}

/** {@linkcode guestRefusal} in one line. */
export function guestLine(decision: Decision): string {
  const { rule, hint } = guestRefusal(decision);
  const by = decision.rule.layer === "none"
    ? ""
    : isGuard(rule.id)
    ? ` ("${rule.id}")`
    : ` (rule "${rule.id}")`;
  return `blocked by policy: ${rule.reason}${by}; ${hint}`;
}

/** Advice of a guard is written for the guest: it names what makes the bytes readable, never a rule. */
function hintFor({ answered, remedy, rule }: Decision): string {
  if (isGuard(rule.id)) return remedy ?? ASK_USER;
  if (answered?.status === "denied") return "your user denied it";
  return answered?.status === "expired" ? `nobody answered in time: ${ASK_USER}` : ASK_USER;
}
