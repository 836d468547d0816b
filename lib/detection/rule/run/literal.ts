/** Literals without which a rule cannot match: the index looks for them. */
import type { PlanExpr, PlanRule, PlanTest } from "../plan.ts";
import { fold } from "./fold.ts";

/** Shortest literal that is looked for within a text. */
export const GRAM = 3;

/** A folded text that a field is, or has. */
export interface Literal {
  /** sources of the field; `undefined`: any text of the event */
  on?: readonly string[];
  text: string;
  isExact: boolean;
}

/** Literals of which a match has at least one. */
export type Requirement = readonly Literal[];

/** Most alternatives that are compared for one rule. */
const ALTERNATIVES_MAX = 16;
const LITERALS_MAX = 10_000;

/**
 * Alternative requirements of a rule, each enough to find its matches.
 *
 * @returns empty if nothing is certain: the rule is tried on every event
 */
export function requirementsOf(
  { condition, selections }: Pick<PlanRule, "condition" | "selections">,
): Requirement[] {
  return alternatives(condition, selections);
}

function alternatives(expr: PlanExpr, selections: readonly PlanExpr[]): Requirement[] {
  // Never true: no literal is needed, and none finds it.
  if (typeof expr === "boolean") return expr ? [] : [[]];
  if ("sel" in expr) return alternatives(selections[expr.sel], selections);
  if ("not" in expr) return [];
  if ("all" in expr) {
    return expr.all.flatMap((part) => alternatives(part, selections)).slice(0, ALTERNATIVES_MAX);
  }
  if ("any" in expr) {
    const parts = expr.any.map((part) => best(alternatives(part, selections)));
    return union(parts);
  }
  const [on, tests] = "words" in expr ? [undefined, expr.words] : [expr.on, expr.is];
  const literals = tests.map((test) => {
    const literal = literalOf(test, on !== undefined);
    return literal && [{ ...literal, ...on && { on } }];
  });
  return expr.every ? literals.filter((literal) => literal !== undefined) : union(literals);
}

function union(parts: readonly (Requirement | undefined)[]): Requirement[] {
  if (!parts.every((part) => part !== undefined)) return [];
  const literals = parts.flat();
  return literals.length > LITERALS_MAX ? [] : [literals];
}

/** The requirement whose shortest literal is the longest. */
function best(requirements: readonly Requirement[]): Requirement | undefined {
  return requirements.length === 0
    ? undefined
    : requirements.reduce((a, b) => strength(b) > strength(a) ? b : a);
}

export function strength(requirement: Requirement): number {
  let least = Infinity;
  for (const { text, isExact } of requirement) least = Math.min(least, text.length + (isExact ? 1 : 0));
  return least;
}

function literalOf(test: PlanTest, hasField: boolean): Pick<Literal, "text" | "isExact"> | undefined {
  const part = (text: string) => text.length >= GRAM ? { text, isExact: false } : undefined;
  switch (test.t) {
    case "text": {
      const text = test.cased ? fold(test.text) : test.text;
      return test.at === "is" && hasField ? { text, isExact: true } : part(text);
    }
    case "glob":
      return part(fold(longest(test.parts.filter((part) => typeof part === "string"))));
    case "re":
      return part(fold(longest(regexLiterals(test.re, test.flags.includes("i")))));
    default:
      return undefined;
  }
}

function longest(texts: readonly string[]): string {
  return texts.reduce((a, b) => b.length > a.length ? b : a, "");
}

/** Letters that without case are a letter outside of ASCII too that folds to itself: the long s. */
const CASE_OTHERS = "sS";

/**
 * Literals contained in every match of a regular expression, found by a simple scan: only plain characters of
 * ASCII outside groups and classes count.
 */
export function regexLiterals(pattern: string, ignoresCase = false): string[] {
  if (/\(\?[a-zA-Z]*[ixU]|\\[QpPx0-9]/.test(pattern)) return [];
  const others = ignoresCase ? CASE_OTHERS : "";
  const runs: string[] = [];
  let run = "";
  let depth = 0;
  const end = () => {
    if (run) runs.push(run);
    run = "";
  };
  for (let at = 0; at < pattern.length; at++) {
    let char = pattern[at];
    // A character of two units may be optional as a whole.
    let isLiteral = !"^$.[]()*+?{}|".includes(char) && char <= "\x7f" && !others.includes(char);
    if (char === "|" && depth === 0) return [];
    if (char === "\\") {
      char = pattern[++at] ?? "";
      isLiteral = /[^A-Za-z0-9]/.test(char);
    } else if (char === "[") at = classEnd(pattern, at);
    else if (char === "(") depth++;
    else if (char === ")") depth--;
    else if (char === "{") at = Math.max(at, pattern.indexOf("}", at));
    const next = pattern[at + 1] ?? "";
    // An optional or repeated character ends the run; a group may be absent as a whole.
    if (!isLiteral || depth > 0 || next !== "" && "*?{".includes(next)) end();
    else {
      run += char;
      if (next === "+") end();
    }
  }
  end();
  return runs;
}

function classEnd(pattern: string, from: number): number {
  let at = from + 1;
  if (pattern[at] === "^") at++;
  if (pattern[at] === "]") at++;
  for (; at < pattern.length && pattern[at] !== "]"; at++) {
    if (pattern[at] === "\\") at++;
    else if (pattern.startsWith("[:", at)) at = Math.max(at, pattern.indexOf(":]", at) + 1);
  }
  return at;
}
