/** What a rule is once it is read (contracts.md §5). No zod here: the engine takes rules as plain data. */

export const ACTIONS = ["block", "ask", "rewrite", "allow"] as const;
/** In order of restriction: of two rules with the same priority the earlier of these wins. */
export type Action = typeof ACTIONS[number];

export const LAYERS = ["corp", "profile", "default"] as const;
/** Who wrote the rule, in order of trust. */
export type Layer = typeof LAYERS[number];

export const DETECTION_LEVELS = ["informational", "low", "medium", "high", "critical"] as const;
export type DetectionLevel = typeof DETECTION_LEVELS[number];

export const PRIORITY_MIN = -1000;
export const PRIORITY_MAX = 1000;
/** Priority of a rule that names none, by layer (contracts.md §5). */
export const PRIORITY_DEFAULT: Record<Layer, number> = { corp: -10, profile: 10, default: 0 };

/** Longest match expression, in characters. */
export const MATCH_MAX = 64 * 1024;
/** Most rules of one policy. */
export const RULES_MAX = 100_000;

/** One change that a rewrite rule makes. */
export interface RewriteOp {
  op: "set" | "strip_header" | "replace";
  /** a field, or for strip_header the header's field or its bare name */
  path: string;
  /** the new value, or what a match is replaced with (`$1` is the first group) */
  value?: string | number | boolean;
  /** RE2, for replace */
  pattern?: string;
}

/** One rule with where it was written. */
export interface Rule {
  id: string;
  layer: Layer;
  name: string;
  action: Action;
  /** CEL over the event's paths */
  match: string;
  enabled: boolean;
  priority: number;
  detection_level?: DetectionLevel;
  reason?: string;
  rewrite?: RewriteOp[];
  file?: string;
  /** of its table, from 1 */
  line?: number;
  /** of its match expression */
  match_line?: number;
}

/** Where rules are looked at: `corp` before `profile` by priority, `default` last; then restriction, then id. */
export function compareRules(a: Rule, b: Rule): number {
  return Number(a.layer === "default") - Number(b.layer === "default") ||
    a.priority - b.priority ||
    ACTIONS.indexOf(a.action) - ACTIONS.indexOf(b.action) ||
    (a.id < b.id ? -1 : a.id > b.id ? 1 : LAYERS.indexOf(a.layer) - LAYERS.indexOf(b.layer));
}

/** A rule's name in messages: `file:line: rule "id"`. */
export function ruleLabel({ file, line, id, layer }: Rule): string {
  return `${file ? `${file}:${line ?? 1}: ` : ""}${layer} rule "${id}"`;
}
