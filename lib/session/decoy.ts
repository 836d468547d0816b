import { REASON } from "../credential/grant.ts";
import type { Event } from "../event/mod.ts";
import type { PolicyFinding } from "../policy/mod.ts";

/** The finding of a decoy that was used: somebody tries credentials that nobody gave them (contracts.md §9). */
export function decoyFinding({ common: { event_id }, credential }: Event): PolicyFinding | undefined {
  if (credential?.substitution.reason !== REASON.decoy) return undefined;
  return {
    finding_id: `finding-${event_id}-credential-decoy`,
    event_id,
    rule_id: "credential-decoy",
    pack_id: "sbx.builtin",
    title: "a decoy credential was used",
    severity: "critical",
    confidence: "high",
    tags: ["credential", "decoy"],
  };
}
