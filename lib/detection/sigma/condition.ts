/** Parser of Sigma conditions. sbx supports one selection name; the rest is parsed to explain errors and propose splits. */

/** Parsed condition. */
export type Condition =
  | { kind: "selection"; name: string }
  | { kind: "and" | "or"; parts: Condition[] }
  | { kind: "not"; part: Condition }
  /** `1 of them`, `all of selection_*` */
  | { kind: "of"; all: boolean; pattern: string };

/** Maximum nesting of a condition. */
const DEPTH_MAX = 50;

/** Parses a condition; `undefined` if it is invalid or uses an aggregation. */
export function parseCondition(text: string): Condition | undefined {
  const words = text.match(/[()]|[^\s()]+/g) ?? [];
  const parser = new Parser(words);
  const condition = parser.or(0);
  return condition && parser.done ? condition : undefined;
}

class Parser {
  #at = 0;

  constructor(readonly words: string[]) {}

  get done(): boolean {
    return this.#at === this.words.length;
  }

  or(depth: number): Condition | undefined {
    return this.#chain("or", () => this.#chain("and", () => this.#not(depth)));
  }

  #chain(kind: "and" | "or", part: () => Condition | undefined): Condition | undefined {
    const parts: Condition[] = [];
    do {
      const next = part();
      if (!next) return undefined;
      parts.push(next);
    } while (this.#take(kind));
    return parts.length === 1 ? parts[0] : { kind, parts };
  }

  #not(depth: number): Condition | undefined {
    if (depth > DEPTH_MAX) return undefined;
    if (this.#take("not")) {
      const part = this.#not(depth + 1);
      return part && { kind: "not", part };
    }
    if (this.#take("(")) {
      const inner = this.or(depth + 1);
      return inner && this.#take(")") ? inner : undefined;
    }
    const word = this.words[this.#at];
    if (/^(1|any|all)$/i.test(word ?? "") && this.words[this.#at + 1]?.toLowerCase() === "of") {
      const pattern = this.words[this.#at + 2];
      if (!pattern || !NAME.test(pattern)) return undefined;
      this.#at += 3;
      return { kind: "of", all: word.toLowerCase() === "all", pattern };
    }
    if (word === undefined || !NAME.test(word) || /^(and|or|not|of|them)$/i.test(word)) return undefined;
    this.#at++;
    return { kind: "selection", name: word };
  }

  #take(word: string): boolean {
    if (this.words[this.#at]?.toLowerCase() !== word) return false;
    this.#at++;
    return true;
  }
}

const NAME = /^[\w.*-]+$/;

/** Expands the pattern of `1 of …` or `all of …`; `them` excludes names with a leading underscore. */
export function namesOf(pattern: string, names: readonly string[]): string[] {
  if (pattern === "them") return names.filter((name) => !name.startsWith("_"));
  const parts = pattern.split("*");
  return names.filter((name) => {
    if (parts.length === 1) return name === pattern;
    let at = parts[0].length;
    if (!name.startsWith(parts[0])) return false;
    for (const part of parts.slice(1, -1)) {
      const start = name.indexOf(part, at);
      if (start < 0) return false;
      at = start + part.length;
    }
    return name.length - parts.at(-1)!.length >= at && name.endsWith(parts.at(-1)!);
  });
}

/** Constructs beyond the name of one selection. */
export type ConditionReason =
  | "condition-aggregation"
  | "condition-not"
  | "condition-of"
  | "condition-or"
  | "condition-and";

/** Lists the constructs of a condition, each once. */
export function constructsOf(text: string): ConditionReason[] {
  const words = new Set(text.toLowerCase().match(/\||[^\s()|]+/g) ?? []);
  const constructs: ConditionReason[] = [];
  if (words.has("|") || words.has("near")) constructs.push("condition-aggregation");
  if (words.has("not")) constructs.push("condition-not");
  if (words.has("of")) constructs.push("condition-of");
  if (words.has("or")) constructs.push("condition-or");
  if (words.has("and")) constructs.push("condition-and");
  return constructs;
}
