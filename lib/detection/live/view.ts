/** What the API shows of detections that are in force (contracts.md §6). */
import type { DetectionIr } from "../ir.ts";
import { mergeCounters, type RuleCounter } from "../match/counter.ts";
import type { Overlay } from "./overlay.ts";
import { RUNTIME_PACK } from "./rule_input.ts";

/** Whose a detection is. */
export type DetectionScope = "profile" | "user" | "corp" | "runtime";

/** One detection in the answer of `GET /detection`: a rule of a pack, or an overlay as a whole. */
export interface DetectionView {
  /** of an overlay: what `DELETE /detection/{id}` takes */
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
 * The rules of a pack, each with what it has found.
 *
 * @param counters of any rules, of any number of VMs
 */
export function packViews(
  scope: DetectionScope,
  { pack_id, rules }: DetectionIr,
  counters: readonly RuleCounter[],
): DetectionView[] {
  const own = mergeCounters(counters.filter((counter) => counter.pack_id === pack_id));
  const byRule = new Map(own.map((counter) => [counter.rule_id, counter]));
  return rules.map((rule) => ({
    id: rule.id,
    pack_id,
    scope,
    enabled: true,
    compiled: true,
    ...counted(byRule.get(rule.id)),
    definition: rule,
  }));
}

/** An overlay, with what its rules have found together. */
export function overlayView(
  { id, enabled, ir, definition }: Overlay,
  counters: readonly RuleCounter[],
): DetectionView {
  const rules = new Set(ir?.rules.map((rule) => rule.id));
  const own = counters.filter(({ rule_id, pack_id }) => pack_id === ir?.pack_id && rules.has(rule_id));
  const [sum] = mergeCounters(own.map((counter) => ({ ...counter, rule_id: id })));
  return {
    id,
    pack_id: ir?.pack_id ?? RUNTIME_PACK,
    scope: "runtime",
    enabled,
    compiled: ir !== undefined,
    ...counted(sum),
    definition,
  };
}

function counted(counter: RuleCounter | undefined) {
  return {
    match_count: counter?.match_count ?? 0,
    last_matched_event: counter?.last_matched_event ?? null,
    last_matched_unix_ms: counter?.last_matched_unix_ms ?? null,
  };
}
