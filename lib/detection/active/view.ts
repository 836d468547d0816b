/** Active detections, as the API shows them (docs/design/contracts/06-detection.md §6). */
import type { DetectionIr } from "../ir/ir.ts";
import { mergeCounters, type RuleCounter } from "../match/matcher.ts";
import { type Overlay, RUNTIME_PACK } from "./overlay.ts";

/** Origin of a detection. */
export type DetectionScope = "profile" | "user" | "corp" | "runtime";

/** One entry of `GET /detection`: a rule of a pack, or a whole overlay. */
export interface DetectionView {
  /** rule id, or overlay id for `DELETE /detection/{id}` */
  id: string;
  pack_id: string;
  scope: DetectionScope;
  enabled: boolean;
  compiled: boolean;
  match_count: number;
  last_matched_event: string | null;
  last_matched_unix_ms: number | null;
  definition: unknown;
}

/**
 * Views of a pack's rules with their counters.
 *
 * @param counters counters of any rules and any number of VMs
 */
export function packViews(
  scope: DetectionScope,
  { pack_id, rules }: DetectionIr,
  counters: readonly RuleCounter[],
): DetectionView[] {
  const packCounters = mergeCounters(counters.filter((counter) => counter.pack_id === pack_id));
  const byRule = new Map(packCounters.map((counter) => [counter.rule_id, counter]));
  return rules.map((rule) => ({
    id: rule.id,
    pack_id,
    scope,
    enabled: true,
    compiled: true,
    ...countsOf(byRule.get(rule.id)),
    definition: rule,
  }));
}

/** View of an overlay with the sum of its rules' counters. */
export function overlayView(
  { id, enabled, ir, definition }: Overlay,
  counters: readonly RuleCounter[],
): DetectionView {
  const rules = new Set(ir?.rules.map((rule) => rule.id));
  const overlayCounters = counters.filter(({ rule_id, pack_id }) =>
    pack_id === ir?.pack_id && rules.has(rule_id)
  );
  const [sum] = mergeCounters(overlayCounters.map((counter) => ({ ...counter, rule_id: id })));
  return {
    id,
    pack_id: ir?.pack_id ?? RUNTIME_PACK,
    scope: "runtime",
    enabled,
    compiled: ir !== undefined,
    ...countsOf(sum),
    definition,
  };
}

function countsOf(counter: RuleCounter | undefined) {
  return {
    match_count: counter?.match_count ?? 0,
    last_matched_event: counter?.last_matched_event ?? null,
    last_matched_unix_ms: counter?.last_matched_unix_ms ?? null,
  };
}
