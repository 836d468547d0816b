/** Rules as plain data (docs/design/contracts/05-policy.md §5), without zod at run time. */
import type { Rule } from "../author/schema.ts";
import { ACTIONS, LAYERS } from "./rule_term.ts";

export type { RewriteOp, Rule } from "../author/schema.ts";

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
