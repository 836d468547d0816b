/**
 * Conditions and Sigma selections. sbx supports one selection name; the rest is parsed to explain errors
 * and to split a rule into supported rules.
 */
import type { Entry, TreeNode } from "../tree/mod.ts";
import { Notes, quote } from "./notes.ts";
import { type Literal, literalsOf } from "./value.ts";

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
function parseCondition(text: string): Condition | undefined {
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
function namesOf(pattern: string, names: readonly string[]): string[] {
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

/** Field of a selection with its OR-linked values. */
export interface SigmaField {
  name: string;
  line: number;
  values: Literal[];
}

/** Replacement advice for each modifier. */
const MODIFIERS: ReadonlyMap<string, string> = new Map(Object.entries({
  contains: "list the exact values",
  startswith: "list the exact values",
  endswith: "list the exact values",
  all: "write one rule for each combination of exact values",
  re: "list the exact values",
  cased: "remove it: values are always compared case-sensitively",
  exists: "remove the field: a field with values always exists",
  expand: "list the values of the placeholder",
  cidr: "list the exact addresses",
  lt: "list the exact numbers",
  lte: "list the exact numbers",
  gt: "list the exact numbers",
  gte: "list the exact numbers",
  base64: "write the encoded value",
  base64offset: "write the encoded values",
  wide: "write the encoded value",
  utf16: "write the encoded value",
  utf16le: "write the encoded value",
  utf16be: "write the encoded value",
  windash: "list both spellings",
  fieldref: "compare with exact values",
}));

/**
 * Reads the AND-linked fields of a selection. All problems of all fields are reported to `notes`.
 *
 * @returns `undefined` if the node is not a map of fields to exact values
 */
export function fieldsOf(name: string, node: TreeNode, notes: Notes): SigmaField[] | undefined {
  if (node.kind === "scalar") {
    notes.reject(
      "selection-keywords",
      node.line,
      `${name}: a keyword without a field is not supported; write field: value`,
    );
    return undefined;
  }
  if (node.kind === "list") {
    if (node.items.some(({ kind }) => kind === "map")) {
      const line = node.items[1]?.line ?? node.line;
      notes.reject(
        "selection-list",
        line,
        `${name}: a list of maps is not supported; write one rule for each map`,
      );
    } else {
      notes.reject(
        "selection-keywords",
        node.line,
        `${name}: a list of keywords is not supported; write field: value`,
      );
    }
    return undefined;
  }
  if (!node.entries.length) {
    notes.reject(
      "selection-empty",
      node.line,
      `${name}: a selection without fields would match everything; add a field`,
    );
    return undefined;
  }
  const seen = new Map<string, string>();
  const fields = node.entries.map(({ key, line, value }): SigmaField | undefined => {
    const [field, ...modifiers] = key.split("|");
    if (modifiers.length) rejectModifiers(key, modifiers, line, notes);
    const duplicate = modifiers.length ? undefined : seen.get(field.toLowerCase());
    if (duplicate !== undefined) {
      notes.reject(
        "field-case",
        line,
        `${field} and ${duplicate} differ only in case; remove one`,
      );
    } else if (!modifiers.length) seen.set(field.toLowerCase(), field);
    if (!field) {
      notes.reject(
        "selection-keywords",
        line,
        `${quote(key)}: a value without a field is not supported; write field: value`,
      );
    }
    const values = literalsOf(field, value, notes);
    return values && field && !modifiers.length ? { name: field, line, values } : undefined;
  });
  return fields.every((field) => field !== undefined) ? fields : undefined;
}

function rejectModifiers(key: string, modifiers: string[], line: number, notes: Notes): void {
  for (const modifier of modifiers) {
    const instead = MODIFIERS.get(modifier.toLowerCase()) ?? "write field: exact values";
    notes.reject(
      "field-modifier",
      line,
      `${key}: the modifier ${quote(modifier)} is not supported; ${instead}`,
    );
  }
}

// Split of an unsupported rule into supported rules that match the same events.

/** Rules that together match the events of one rule; an event may match several of them. */
export interface Split {
  rules: number;
  /** selections combined in each rule, `selection_a + selection_b`; a list element is `selection[0]` */
  parts: string[];
}

/** Maximum number of rules in a split. */
const SPLIT_MAX = 100;

/** One rule of a split. */
interface Part {
  /** names of its selections */
  from: string[];
  /** fields in lower case */
  fields: Set<string>;
}

/**
 * Computes an exact split. The condition may use selections with `and`, `or`, `1 of` and `all of`; each
 * selection is a map of fields to exact values, or a list of such maps; combined selections share no field,
 * because both values would have to match.
 *
 * @returns `undefined` if there is no exact split, or the rule needs none
 */
export function splitOf(condition: string, selections: readonly Entry[]): Split | undefined {
  // Most rules need no split.
  if (selections.length === 1 && selections[0].key === condition && selections[0].value.kind === "map") {
    return undefined;
  }
  const parsed = parseCondition(condition);
  if (!parsed) return undefined;
  const byName = new Map(selections.map(({ key, value }) => [key, value]));
  const parts = partsOf(parsed, byName);
  if (!parts || parts.length === 0 || parts.length > SPLIT_MAX) return undefined;
  if (parts.length === 1 && parts[0].from.length === 1 && selections.length === 1) return undefined;
  return { rules: parts.length, parts: parts.map(({ from }) => from.join(" + ")) };
}

function partsOf(condition: Condition, selections: Map<string, TreeNode>): Part[] | undefined {
  switch (condition.kind) {
    case "selection": {
      const node = selections.get(condition.name);
      return node && selectionPartsOf(condition.name, node);
    }
    case "of": {
      const parts = namesOf(condition.pattern, [...selections.keys()]).map((name): Condition => ({
        kind: "selection",
        name,
      }));
      return parts.length ? partsOf({ kind: condition.all ? "and" : "or", parts }, selections) : undefined;
    }
    case "or": {
      const all = condition.parts.map((part) => partsOf(part, selections));
      return all.every((parts) => parts !== undefined) ? limitParts(all.flat()) : undefined;
    }
    case "and":
      return condition.parts.map((part) => partsOf(part, selections)).reduce(combine);
    case "not":
      return undefined;
  }
}

function selectionPartsOf(name: string, node: TreeNode): Part[] | undefined {
  const maps = node.kind === "list" ? node.items : [node];
  const parts = maps.map((map, at): Part | undefined => {
    const notes = new Notes([], () => ({}));
    const fields = fieldsOf(name, map, notes);
    if (!fields || notes.problems.length) return undefined;
    return {
      from: [node.kind === "list" ? `${name}[${at}]` : name],
      fields: new Set(fields.map((field) => field.name.toLowerCase())),
    };
  });
  return parts.every((part) => part !== undefined) ? limitParts(parts) : undefined;
}

/** Combines every part of one side with every part of the other; `undefined` if two share a field. */
function combine(left: Part[] | undefined, right: Part[] | undefined): Part[] | undefined {
  if (!left || !right || left.length * right.length > SPLIT_MAX) return undefined;
  const parts: Part[] = [];
  for (const a of left) {
    for (const b of right) {
      if (!a.fields.isDisjointFrom(b.fields)) return undefined;
      parts.push({ from: [...a.from, ...b.from], fields: a.fields.union(b.fields) });
    }
  }
  return parts;
}

function limitParts(parts: Part[]): Part[] | undefined {
  return parts.length <= SPLIT_MAX ? parts : undefined;
}
