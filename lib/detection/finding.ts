/** Finding: a rule's match on one event (docs/design/contracts/06-detection.md §6). */
import type { Finding } from "../event/mod.ts";
import type { IrRule } from "./ir/ir.ts";
import type { Matchable } from "./match/index_node.ts";

export interface DetectionFinding extends Finding {
  sigma_id?: string;
  /** sinks that its pack names; absent: all */
  export_routes?: string[];
}

/** Builds the finding of a rule that matched an event. */
export function findingOf(
  event: Matchable,
  { rule, pack_id }: { rule: IrRule; pack_id: string },
): DetectionFinding {
  const event_id = event.common.event_id ?? "";
  return {
    finding_id: `finding-${event_id}-${rule.id}`,
    event_id,
    rule_id: rule.id,
    pack_id,
    ...(rule.sigma_id !== undefined && { sigma_id: rule.sigma_id }),
    title: rule.title,
    severity: rule.severity,
    confidence: rule.confidence,
    tags: [...rule.tags],
  };
}
