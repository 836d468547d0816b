import type { ListedFinding } from "../api/routes.ts";
import { text } from "../text/en.ts";

/** The decision on the event of a finding. */
export function Outcome({ decision }: Pick<ListedFinding, "decision">) {
  if (!decision) return <>{text.common.none}</>;
  return (
    <span class={`pill ${decision.outcome}`} title={decision.rule_id}>
      {text.findings.outcomes(decision.outcome, decision.answered_by)}
    </span>
  );
}
