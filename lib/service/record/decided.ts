import { afterAsk, findingDecision } from "../../policy/decision/mod.ts";
import type { AskRecord, Decision } from "../../policy/mod.ts";
import { type FindingRow, readApproval } from "../../ledger/read/mod.ts";
import type { FindingDecision } from "../../event/mod.ts";

/** A decision as it stands after the answer to its ask, whose event may not have ended yet. */
export async function applyAsk(ledger: string, decision: Decision): Promise<Decision> {
  if (decision.decision !== "ask") return decision;
  const ask = await readApproval<AskRecord>(ledger, decision.event_id);
  return ask ? afterAsk(decision, ask) : decision;
}

/** The decision on the event of a finding. */
export async function decisionOf(
  ledger: string,
  { event, decision }: FindingRow,
): Promise<FindingDecision> {
  return findingDecision(event, decision && await applyAsk(ledger, decision as Decision));
}
