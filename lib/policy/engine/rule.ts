/** Rules as plain data (docs/design/contracts/05-policy.md §5), without zod at run time. */
import type { Rule } from "../author/schema.ts";

export type { RewriteOp, Rule } from "../author/schema.ts";

export const ACTIONS = ["block", "ask", "rewrite", "allow"] as const;
/** Actions in order of restriction: at the same priority the earlier one wins. */
export type Action = typeof ACTIONS[number];

export const LAYERS = ["corp", "profile", "default"] as const;
/** Author of a rule, in order of trust. */
export type Layer = typeof LAYERS[number];

export const DETECTION_LEVELS = ["informational", "low", "medium", "high", "critical"] as const;

/** Protocols that a rule can hold a connection to (docs/design/contracts/05-policy.md §5, "Protocols"). */
export const PROTOCOLS = [
  "amqp",
  "git",
  "imap",
  "ldap",
  "mongodb",
  "mqtt",
  "mysql",
  "nats",
  "pop3",
  "postgres",
  "redis",
  "smtp",
  "ssh",
  "tls",
] as const;
export type Protocol = typeof PROTOCOLS[number];

export const PRIORITY_MIN = -1000;
export const PRIORITY_MAX = 1000;
/** Default priority by layer (docs/design/contracts/05-policy.md §5). */
export const PRIORITY_DEFAULT: Record<Layer, number> = { corp: -10, profile: 10, default: 0 };

/** Maximum length of a match expression, in characters. */
export const MATCH_MAX = 64 * 1024;
/** Maximum rules of one policy. */
export const RULES_MAX = 100_000;

/** Evaluation order: `corp` before `profile` by priority, `default` last; then restriction, then id. */
export function compareRules(a: Rule, b: Rule): number {
  return Number(a.layer === "default") - Number(b.layer === "default") ||
    a.priority - b.priority ||
    ACTIONS.indexOf(a.action) - ACTIONS.indexOf(b.action) ||
    (a.id < b.id ? -1 : a.id > b.id ? 1 : LAYERS.indexOf(a.layer) - LAYERS.indexOf(b.layer));
}

/**
 * The whole condition of a rule: one with a protocol means connections alone, and none whose client is known to speak
 * another.
 */
export function matchOf({ match, protocol }: Pick<Rule, "match" | "protocol">): string {
  if (protocol === undefined) return match;
  // On a line of its own: a comment may end the expression.
  return `(${match}\n) && http.request.method == "CONNECT" && !(common.labels.protocol != "${protocol}")`;
}

/** Label of a rule in messages: `file:line: layer rule "id"`. */
export function ruleLabel({ file, line, id, layer }: Rule): string {
  return `${file ? `${file}:${line ?? 1}: ` : ""}${layer} rule "${id}"`;
}
