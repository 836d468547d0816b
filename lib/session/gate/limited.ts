/** The mark of a budget on the decisions and the record of a session. */
import { type Event, type Finding, newEventId } from "../../event/mod.ts";
import type { LedgerRow } from "../../ledger/mod.ts";
import type { Evaluation } from "../../policy/mod.ts";
import type { Limit, Spending } from "../../policy/budget/mod.ts";

/** An evaluation under a budget: at the limit, an event that the rules allow is asked about or blocked. */
export function limited(evaluation: Evaluation, limit: Limit | undefined): Evaluation {
  const { decision } = evaluation;
  if (!limit || decision.decision !== "allow") return evaluation;
  const { id, layer, reason, on } = limit;
  const remedy = on === "ask"
    ? "approve it: sbx asks lists pending asks"
    : limit.remedy !== undefined
    ? limit.remedy
    : layer === "corp"
    ? "only your administrator can raise the budget of corp"
    : "raise the limit in [budget] of the profile; sbx costs shows the amount spent";
  const rule = { id, layer, name: "budget", reason };
  return {
    ...evaluation,
    decider: undefined,
    decision: { ...decision, decision: on, matched_fields: [], remedy, rule },
  };
}

/** The finding of a budget that is nearly used up. */
export function budgetFinding({ common: { event_id } }: Event, title: string): Finding {
  return {
    finding_id: `finding-${event_id}-budget`,
    event_id,
    rule_id: "budget",
    pack_id: "sbx.builtin",
    title,
    severity: "low",
    confidence: "high",
    tags: ["budget"],
  };
}

/**
 * Row of the record with the cost of a call, or the session's running time
 * (docs/design/contracts/12-ledger.md §12).
 */
export function spendingRow(spending: Partial<Spending>): LedgerRow {
  const record = { statement_id: newEventId(), kind: "spending", at_unix_ms: Date.now(), ...spending };
  return { table: "statements", record };
}
