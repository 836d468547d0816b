/** Detections as a person reads them: the rules of each pack, and which of them a search finds. */
import type { DetectionView } from "../../../../lib/client/api/schema.ts";

export type Detection = DetectionView;

/** A rule of a pack. */
export interface PackRule {
  id: string;
  title: string;
  severity: string | undefined;
  matches: number;
  /** unix `ms` */
  lastMatch: number | null;
  /** present while it is switched off */
  off: Detection["off"];
}

export interface Pack {
  id: string;
  scope: Detection["scope"];
  rules: PackRule[];
  matches: number;
  /** present of a pack or rule that was added at run time: it can be turned off and removed as a whole */
  overlay: Detection | undefined;
}

/** The states by which rules are found. */
export const STATES = ["all", "on", "off", "matched"] as const;
export type RuleState = typeof STATES[number];

/** Groups detections by pack, in the order of the service: the organization's first. */
export function packsOf(detections: readonly Detection[]): Pack[] {
  const packs = new Map<string, Pack>();
  for (const detection of detections) {
    const { scope, pack_id } = detection;
    if (scope === "runtime") {
      const rules = (detection.rules ?? [detection]).map(ruleOf);
      packs.set(`${scope} ${detection.id}`, {
        id: detection.id,
        scope,
        rules,
        matches: detection.match_count,
        overlay: detection,
      });
      continue;
    }
    const key = `${scope} ${pack_id}`;
    const pack = packs.get(key) ?? { id: pack_id, scope, rules: [], matches: 0, overlay: undefined };
    pack.rules.push(ruleOf(detection));
    pack.matches += detection.match_count;
    packs.set(key, pack);
  }
  return [...packs.values()];
}

/** The packs with the rules that have the words and the state; packs without one are left out. */
export function found(packs: readonly Pack[], words: string, state: RuleState): Pack[] {
  const wanted = words.trim().toLowerCase();
  return packs.flatMap((pack) => {
    const rules = pack.rules.filter((rule) =>
      `${pack.id} ${rule.id} ${rule.title} ${rule.severity ?? ""}`.toLowerCase().includes(wanted) &&
      hasState(rule, pack, state)
    );
    return rules.length === 0 ? [] : [{ ...pack, rules }];
  });
}

function hasState({ off, matches }: PackRule, { overlay }: Pack, state: RuleState): boolean {
  const isOff = off !== undefined || overlay?.enabled === false;
  if (state === "matched") return matches > 0;
  return state === "all" || isOff === (state === "off");
}

type Listed = Pick<Detection, "id" | "match_count" | "last_matched_unix_ms" | "off"> & {
  title?: string;
  severity?: string;
  definition?: unknown;
};

function ruleOf(rule: Listed): PackRule {
  const { id, match_count, last_matched_unix_ms, off } = rule;
  // A rule of a pack carries its title in its definition, in one of two languages.
  const written = { ...rule.definition as Listed | undefined, ...rule } as Listed & { level?: string };
  return {
    id,
    title: written.title ?? id,
    severity: written.severity ?? written.level,
    matches: match_count,
    lastMatch: last_matched_unix_ms,
    off,
  };
}
