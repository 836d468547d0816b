import type { DetectionIr } from "./ir/ir.ts";

/** A rule that is left out, because an earlier pack has its id. */
export interface DroppedRule {
  rule_id: string;
  pack_id: string;
  /** id of the earlier pack */
  kept: string;
}

/**
 * Drops each rule whose id an earlier pack has: their findings could not be distinguished. The rest stays
 * active, so that a detection stops neither a VM nor a change of the others.
 *
 * @param irs packs, highest precedence first
 */
export function dropDuplicates(
  irs: readonly DetectionIr[],
): { irs: DetectionIr[]; dropped: DroppedRule[] } {
  const owners = new Map<string, string>();
  const dropped: DroppedRule[] = [];
  const kept = irs.map((ir) => {
    const rules = ir.rules.filter(({ id: rule_id }) => {
      const owner = owners.get(rule_id);
      if (owner === undefined) owners.set(rule_id, ir.pack_id);
      else dropped.push({ rule_id, pack_id: ir.pack_id, kept: owner });
      return owner === undefined;
    });
    return rules.length === ir.rules.length ? ir : { ...ir, rules };
  });
  return { irs: kept, dropped };
}
