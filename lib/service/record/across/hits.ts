/** Counts of events by the rule that decided on them, over many sessions. */
import type { RuleHits } from "../../../client/api/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { countByRule } from "../../../ledger/read/mod.ts";
import { mayHave, type RecordedSession } from "./merge.ts";

/** Counts the events of sessions by the rule that decided on them first. @param since unix `ms` */
export async function hitsAcross(sessions: readonly RecordedSession[], since: number): Promise<RuleHits> {
  const hits = new Map<string, number>();
  const unreadable: string[] = [];
  for (const session of sessions) {
    if (!mayHave(session, { since })) continue;
    try {
      for (const [rule, events] of await countByRule(session.ledger, since)) {
        hits.set(rule, (hits.get(rule) ?? 0) + events);
      }
    } catch (error) {
      // A session without a boot has no ledger, and nothing that could be missing.
      if (!(error instanceof SbxError && error.code === "ledger.not_found")) unreadable.push(session.id);
    }
  }
  const sorted = [...hits].sort(([a, first], [b, second]) => second - first || (a < b ? -1 : 1));
  return { rules: sorted.map(([rule_id, events]) => ({ rule_id, events })), unreadable };
}
