/** Findings that the gate itself makes. */
import { REASON } from "../../credential/mod.ts";
import type { Event, Finding } from "../../event/mod.ts";
import type { RuleFailure } from "../../policy/mod.ts";

/** Refusals of the broker that are findings, by their reason (docs/design/contracts/09-credentials.md §9). */
const REFUSALS: Record<string, (provider: string) => Pick<Finding, "rule_id" | "title" | "severity">> = {
  // A program tries decoy credentials, which it was never given.
  [REASON.decoy]: () => ({
    rule_id: "credential-decoy",
    title: "a decoy credential was used",
    severity: "critical",
  }),
  // A guest uses a provider account that is not configured.
  [REASON.account]: (provider) => ({
    rule_id: "credential-account",
    title: `a key of another account was kept from ${provider}`,
    severity: "high",
  }),
  // A program leaks its supposed secret.
  [REASON.wrongHost]: (provider) => ({
    rule_id: "credential-host",
    title: `a ref of ${provider} was kept from a host of others`,
    severity: "high",
  }),
};

/** Rule ids of these findings. */
export const REFUSAL_RULES = Object.values(REFUSALS).map((refusal) => refusal("").rule_id);

/** Findings for events refused by the broker. */
export function credentialFindings({ common: { event_id }, credential }: Event): Finding[] {
  const { provider, reason = "" } = credential?.substitution ?? {};
  if (provider === undefined || !Object.hasOwn(REFUSALS, reason)) return [];
  const refusal = REFUSALS[reason](provider);
  return [{
    finding_id: `finding-${event_id}-${refusal.rule_id}`,
    event_id,
    ...refusal,
    pack_id: "sbx.builtin",
    confidence: "high",
    tags: refusal.rule_id.split("-"),
  }];
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
