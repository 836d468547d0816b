/** Conditions of Sigma rules. */
import { didYouMean } from "../../base/text/mod.ts";
import { quote } from "../sigma/notes.ts";
import { CONDITION_MAX, NESTING_MAX, type PlanExpr } from "./plan.ts";
import { allOf, anyOf, negate } from "./selection.ts";
import type { RuleNotes } from "./notes.ts";

/** Error in a condition's text. */
class ConditionError extends Error {
  constructor(
    readonly code: "condition" | "condition-aggregation" | "condition-selection" | "limit",
    message: string,
  ) {
    super(message);
  }
}

/**
 * Compiles a condition.
 *
 * @param selections selections by name; each becomes a reference, or the constant that it is
 * @returns `undefined` if it is invalid, with the reason in the notes
 */
export function readCondition(
  text: string,
  line: number,
  selections: ReadonlyMap<string, PlanExpr>,
  notes: RuleNotes,
): PlanExpr | undefined {
  try {
    return new Parser(text, selections).parse();
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error;
    notes.reject(error.code, line, `condition ${quote(text)}: ${error.message}`);
  }
}

class Parser {
  readonly #words: string[];
  readonly #names: string[];
  #at = 0;
  #nodes = 0;

  constructor(text: string, readonly selections: ReadonlyMap<string, PlanExpr>) {
    this.#words = text.match(/[()|]|[^\s()|]+/g) ?? [];
    this.#names = [...selections.keys()];
    this.#count(this.#words.length);
  }

  parse(): PlanExpr {
    if (this.#words.length === 0) throw new ConditionError("condition", "is empty");
    if (this.#words.includes("|")) {
      throw new ConditionError(
        "condition-aggregation",
        "aggregations (|) are not part of Sigma 2; write a correlation",
      );
    }
    const expr = this.#or(0);
    if (this.#at < this.#words.length) {
      throw new ConditionError("condition", `${quote(this.#words[this.#at])} is not expected there`);
    }
    return expr;
  }

  #count(nodes: number): void {
    this.#nodes += nodes;
    if (this.#nodes > CONDITION_MAX) {
      throw new ConditionError("limit", `has more than ${CONDITION_MAX} parts`);
    }
  }

  #or(depth: number): PlanExpr {
    const parts = [this.#and(depth)];
    while (this.#take("or")) parts.push(this.#and(depth));
    return anyOf(parts);
  }

  #and(depth: number): PlanExpr {
    const parts = [this.#not(depth)];
    while (this.#take("and")) parts.push(this.#not(depth));
    return allOf(parts);
  }

  #not(depth: number): PlanExpr {
    let isNegated = false;
    while (this.#take("not")) isNegated = !isNegated;
    return negate(this.#term(depth), isNegated);
  }

  #term(depth: number): PlanExpr {
    if (depth > NESTING_MAX) throw new ConditionError("limit", `is nested deeper than ${NESTING_MAX}`);
    if (this.#take("(")) {
      const expr = this.#or(depth + 1);
      if (!this.#take(")")) throw new ConditionError("condition", "a ) is missing");
      return expr;
    }
    const word = this.#words[this.#at++];
    if (word === undefined) throw new ConditionError("condition", "ends too early");
    const quantifier = word.toLowerCase();
    const isOf = this.#words[this.#at]?.toLowerCase() === "of" && !this.selections.has(word);
    if (isOf && ["1", "any", "all"].includes(quantifier)) {
      this.#at++;
      return this.#of(quantifier === "all");
    }
    if (isOf) throw new ConditionError("condition", `${quote(`${word} of`)}: use 1 of, any of or all of`);
    return this.#selection(word);
  }

  #of(isAll: boolean): PlanExpr {
    const pattern = this.#words[this.#at++];
    if (pattern === undefined || pattern === "(" || pattern === ")") {
      throw new ConditionError("condition", "of needs them or a pattern of names");
    }
    const isThem = pattern.toLowerCase() === "them";
    const names = this.#names.filter((name) => isThem ? !name.startsWith("_") : matches(pattern, name));
    if (names.length === 0) {
      throw new ConditionError("condition-selection", `no selection has the name ${quote(pattern)}`);
    }
    this.#count(names.length);
    const parts = names.map((name) => this.selections.get(name)!);
    return isAll ? allOf(parts) : anyOf(parts);
  }

  #selection(word: string): PlanExpr {
    const expr = this.selections.get(word);
    if (expr !== undefined) return expr;
    const near = didYouMean(word, this.#names);
    const hint = near ? `; ${near}` : "";
    const isWord = !["(", ")", "and", "or", "of", "them"].includes(word.toLowerCase());
    throw isWord
      ? new ConditionError("condition-selection", `there is no selection ${quote(word)}${hint}`)
      : new ConditionError("condition", `${quote(word)} is not expected there`);
  }

  #take(word: string): boolean {
    if (this.#words[this.#at]?.toLowerCase() !== word || this.selections.has(this.#words[this.#at])) {
      return false;
    }
    this.#at++;
    return true;
  }
}

/** Tests a name against a pattern with `*`; the pieces are found from left to right, in linear time. */
function matches(pattern: string, name: string): boolean {
  const [first, ...rest] = pattern.split("*");
  if (rest.length === 0) return name === pattern;
  const last = rest.pop()!;
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length) {
    return false;
  }
  let at = first.length;
  for (const piece of rest) {
    const found = name.indexOf(piece, at);
    if (found < 0 || found + piece.length > name.length - last.length) return false;
    at = found + piece.length;
  }
  return true;
}
