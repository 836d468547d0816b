/** Packs that may run: pinned by a profile, not revoked, and without rules of an earlier pack. */
import { SbxError } from "../../base/error/mod.ts";
import { type Compiled, isPlan } from "../compiled.ts";
import type { DetectionIr } from "../ir/ir.ts";

/** Pack and version that a profile requires. */
export interface PackPin {
  id: string;
  version: string;
}

/** Fields of a pack that decide if it may run. */
export type PackIdentity = Pick<DetectionIr, "pack_id" | "pack_version" | "pack_status">;

/**
 * Checks that a pack may be installed and launched (docs/design/contracts/06-detection.md §6).
 *
 * @throws {SbxError} `detection.revoked`: the pack is revoked
 */
export function requireInstallable({ pack_id, pack_version, pack_status }: PackIdentity): void {
  if (pack_status !== "revoked") return;
  throw new SbxError("detection.revoked", `the detection pack ${pack_id} ${pack_version} is revoked`, {
    hint: "remove it from the profile, or pin a version that is not revoked",
  });
}

/**
 * Checks the current packs against a profile's pins; called at every launch.
 *
 * @throws {SbxError} `detection.not_found`: a pinned pack is missing; `detection.pin_mismatch`: its
 * version differs; `detection.revoked`
 */
export function requirePinned(pins: readonly PackPin[], packs: readonly PackIdentity[]): void {
  for (const { id, version } of pins) {
    const pack = packs.find(({ pack_id }) => pack_id === id);
    if (!pack) {
      const ids = packs.map(({ pack_id }) => pack_id).join(", ");
      throw new SbxError(
        "detection.not_found",
        `the profile pins the detection pack "${id}", which was not found`,
        {
          hint: ids ? `correct the pin or its path; packs found: ${ids}` : "correct the pin or its path",
        },
      );
    }
    if (pack.pack_version !== version) {
      throw new SbxError(
        "detection.pin_mismatch",
        `the profile pins ${id} ${version}, but the file is version ${pack.pack_version}`,
        { hint: `review the changes and pin version ${pack.pack_version}, or restore version ${version}` },
      );
    }
    requireInstallable(pack);
  }
}

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
  irs: readonly Compiled[],
): { irs: Compiled[]; dropped: DroppedRule[] } {
  const owners = new Map<string, string>();
  const dropped: DroppedRule[] = [];
  const kept = irs.map((ir): Compiled => {
    const isKept = ({ id: rule_id, silent }: { id: string; silent?: true }) => {
      // No finding has its id.
      if (silent) return true;
      const owner = owners.get(rule_id);
      if (owner === undefined) owners.set(rule_id, ir.pack_id);
      else dropped.push({ rule_id, pack_id: ir.pack_id, kept: owner });
      return owner === undefined;
    };
    if (isPlan(ir)) {
      return { ...ir, rules: ir.rules.filter(isKept), correlations: ir.correlations.filter(isKept) };
    }
    const rules = ir.rules.filter(isKept);
    return rules.length === ir.rules.length ? ir : { ...ir, rules };
  });
  return { irs: kept, dropped };
}

/**
 * Packs without the rules that are switched off. A Sigma rule still counts in the correlations that name it.
 * Packs that corp owns keep all of theirs.
 */
export function withoutRules(packs: readonly Compiled[], off: readonly string[]): Compiled[] {
  if (off.length === 0) return [...packs];
  const ids = new Set(off);
  const silenced = <R extends { id: string }>(rules: R[]) =>
    rules.map((rule) => ids.has(rule.id) ? { ...rule, silent: true as const } : rule);
  return packs.map((pack): Compiled => {
    if (!maySwitchOff(pack)) return pack;
    if (!isPlan(pack)) return { ...pack, rules: pack.rules.filter(({ id }) => !ids.has(id)) };
    return { ...pack, rules: silenced(pack.rules), correlations: silenced(pack.correlations) };
  });
}

/** A person may switch off rules of packs whose owner is not corp. */
export function maySwitchOff({ owner }: Pick<Compiled, "owner">): boolean {
  return owner !== "corp";
}
