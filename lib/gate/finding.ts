/** Findings that the gate itself makes. */
import { REASON } from "../credential/mod.ts";
import type { Event, Finding } from "../event/mod.ts";
import type { RuleFailure } from "../policy/mod.ts";

/** Rule id of the finding of a used decoy. */
export const DECOY_RULE = "credential-decoy";

/** The finding of a used decoy: a program tries credentials that nobody gave it (docs/contracts.md §9). */
export function decoyFinding({ common: { event_id }, credential }: Event): Finding | undefined {
  if (credential?.substitution.reason !== REASON.decoy) return undefined;
  return {
    finding_id: `finding-${event_id}-${DECOY_RULE}`,
    event_id,
    rule_id: DECOY_RULE,
    pack_id: "sbx.builtin",
    title: "a decoy credential was used",
    severity: "critical",
    confidence: "high",
    tags: ["credential", "decoy"],
  };
}

/** Rule id of the finding of a key at a provider that is not of the store. */
export const ACCOUNT_RULE = "credential-account";

/** The finding of a guest that speaks to a provider as an account that nobody added (docs/contracts.md §9, "Accounts"). */
export function accountFinding({ common: { event_id }, credential }: Event): Finding | undefined {
  if (credential?.substitution.reason !== REASON.account) return undefined;
  return {
    finding_id: `finding-${event_id}-${ACCOUNT_RULE}`,
    event_id,
    rule_id: ACCOUNT_RULE,
    pack_id: "sbx.builtin",
    title: `a key of another account was kept from ${credential.substitution.provider}`,
    severity: "high",
    confidence: "high",
    tags: ["credential", "account"],
  };
}

/** Findings of what the broker refused. */
export function credentialFindings(event: Event): Finding[] {
  return [decoyFinding(event), accountFinding(event)].filter((finding) => finding !== undefined);
}

/** The finding of a rule that failed, so that its author hears of it. */
export function failureFinding({ rule_id, event_id, message }: RuleFailure): Finding {
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
