/** Sigma modifiers: compiles the values of a field, such as `Image|endswith`, to tests. */
import { didYouMean } from "../../base/text/mod.ts";
import { parseCidr } from "../../base/address/mod.ts";
import { quote } from "../sigma/notes.ts";
import type { ScalarNode, TreeNode } from "../tree/mod.ts";
import type { RuleNotes, RuleReason } from "./notes.ts";
import { type GlobPart, type NumberOperator, type PlanTest, TEXT_MAX, type TextPosition } from "./plan.ts";
import { compileRegex } from "./run/regex.ts";
import {
  base64Offsets,
  bytesText,
  encodeUtf16,
  literalOf,
  parseText,
  textTest,
  unbounded,
  type Utf16,
  windash,
  windashCount,
} from "./text.ts";

/** Replacements of placeholders, by name without `%`. */
export type Placeholders = Readonly<Record<string, readonly (string | number)[]>>;

/** Tests of one field. */
export interface FieldTests {
  tests: PlanTest[];
  /** all tests must match, not one of them */
  every: boolean;
  /** the field matches if the tests do not */
  negated: boolean;
  /** the part of a date that is compared */
  part?: typeof TIME_PARTS[number];
}

/** The rule around the values. */
export interface ValueContext {
  notes: RuleNotes;
  placeholders: Placeholders;
  /** takes values from the rule's limit. @returns false: too few are left */
  take(count: number): boolean;
  /** sources of another field, for `fieldref` */
  sources(field: string): string[] | undefined;
}

export const TIME_PARTS = ["minute", "hour", "day", "week", "month", "year"] as const;
const POSITIONS: Record<string, TextPosition> = { contains: "has", startswith: "begins", endswith: "ends" };
const NUMBERS: readonly string[] = ["lt", "lte", "gt", "gte"] satisfies NumberOperator[];
const UTF16: readonly string[] = ["utf16", "utf16le", "utf16be", "wide"] satisfies Utf16[];
const REGEX_FLAGS = ["i", "m", "s"];

const OTHERS = "all cased neq exists re cidr fieldref windash base64 base64offset expand".split(" ");
/** All but the flags of `re`, whose single letters are not suggested for a misspelt modifier. */
const MODIFIERS = [...Object.keys(POSITIONS), ...NUMBERS, ...UTF16, ...TIME_PARTS, ...OTHERS];

/** A value after the modifiers so far: they change texts and bytes, and leave null. */
type Value =
  | { kind: "text"; parts: GlobPart[]; line: number }
  | { kind: "bytes"; bytes: Uint8Array; line: number }
  | { kind: "null"; line: number };

type TextValue = Extract<Value, { kind: "text" }>;

/** The comparison that a chain ends in. */
type Kind = "text" | "re" | "cidr" | "number" | "fieldref" | "exists";

/** Compiles the values of a field. @returns `undefined` if they are invalid, with the reason in the notes */
export function readValues(
  field: string,
  modifiers: readonly string[],
  node: TreeNode,
  line: number,
  context: ValueContext,
): FieldTests | undefined {
  const scalars = scalarsOf(field, node, context.notes);
  if (!scalars || !context.take(scalars.length)) return undefined;
  return new Chain(field, modifiers, scalars, line, context).run();
}

function scalarsOf(field: string, node: TreeNode, notes: RuleNotes): ScalarNode[] | undefined {
  const items = node.kind === "list" ? node.items : [node];
  if (items.length === 0) {
    notes.reject("value-type", node.line, `${name(field)}: an empty list never matches`);
    return undefined;
  }
  const scalars = items.filter((item) => item.kind === "scalar");
  if (scalars.length === items.length) return scalars;
  const wrong = items.find(({ kind }) => kind !== "scalar")!;
  notes.reject("value-type", wrong.line, `${name(field)}: a value cannot be a ${wrong.kind}`);
  return undefined;
}

/** The field in messages; keywords have none. */
function name(field: string): string {
  return field === "" ? "a keyword" : field;
}

/** Plain scalars that YAML 1.1, which Sigma's own tools read, gives another type. */
const AMBIGUOUS = /^(yes|no|on|off)$|^[-+]?0[0-7_]+$|^[-+]?\d+(:[0-5]?\d)+(\.\d*)?$/i;

const NOT_COMBINED = "cannot be combined with the modifiers before it";

/** Applies a field's modifiers to its values, in their order. */
class Chain {
  #kind: Kind = "text";
  #operator: NumberOperator = "lt";
  #position: TextPosition = "is";
  #cased = false;
  #every = false;
  #negated = false;
  #part: FieldTests["part"];
  #flags = "";
  #values: Value[] = [];
  readonly #notes: RuleNotes;

  constructor(
    readonly field: string,
    readonly modifiers: readonly string[],
    readonly scalars: readonly ScalarNode[],
    readonly line: number,
    readonly context: ValueContext,
  ) {
    this.#notes = context.notes;
  }

  run(): FieldTests | undefined {
    const errors = this.#notes.errors.length;
    this.#values = this.scalars.map((scalar) => this.#valueOf(scalar));
    for (const [at, modifier] of this.modifiers.entries()) {
      this.#apply(modifier, this.modifiers[at - 1]);
      if (this.#notes.errors.length > errors) return undefined;
    }
    const tests = this.#tests();
    if (this.#notes.errors.length > errors) return undefined;
    if (this.#every && tests.length === 1) {
      this.#warn("modifier-combination", this.line, "all has a single value");
    }
    return {
      tests,
      every: this.#every,
      negated: this.#negated,
      ...(this.#part && { part: this.#part }),
    };
  }

  #valueOf({ value, plain, line }: ScalarNode): Value {
    if (value === null) return { kind: "null", line };
    if (plain !== undefined && AMBIGUOUS.test(plain)) {
      this.#warn("value-ambiguous", line, `YAML parsers disagree on the type of ${plain}; quote it`);
    }
    const text = String(value);
    if (text.length > TEXT_MAX) {
      this.#reject("value-size", line, `a value has more than ${TEXT_MAX} characters`);
    }
    return { kind: "text", parts: parseText(text), line };
  }

  #apply(modifier: string, before: string | undefined): void {
    if (!MODIFIERS.includes(modifier) && !REGEX_FLAGS.includes(modifier)) {
      const near = didYouMean(modifier, MODIFIERS);
      const hint = near ? `; ${near}` : "";
      return this.#reject("modifier-unknown", this.line, `Sigma has no modifier ${quote(modifier)}${hint}`);
    }
    if (modifier === "all") this.#every = true;
    else if (modifier === "cased") this.#cased = true;
    else if (modifier === "neq") this.#negated = true;
    else if (REGEX_FLAGS.includes(modifier)) this.#flag(modifier, before);
    else if (Object.hasOwn(POSITIONS, modifier)) this.#bound(modifier);
    else if (modifier === "windash") this.#texts("windash", ({ parts }) => this.#windash(parts));
    else if (modifier === "expand") this.#texts("expand", (value) => this.#expand(value));
    else if (UTF16.includes(modifier)) this.#encode(modifier, (text) => encodeUtf16(text, modifier as Utf16));
    else if (modifier === "base64" || modifier === "base64offset") this.#base64(modifier);
    else if ((TIME_PARTS as readonly string[]).includes(modifier)) this.#setPart(modifier);
    else this.#setKind(modifier);
  }

  #reject(reason: RuleReason, line: number, problem: string): void {
    this.#notes.reject(reason, line, `${name(this.field)}: ${problem}`);
  }

  #warn(reason: RuleReason, line: number, problem: string): void {
    this.#notes.warn(reason, line, `${name(this.field)}: ${problem}`);
  }

  #refuse(modifier: string, why: string): void {
    this.#reject("modifier-combination", this.line, `${modifier} ${why}`);
  }

  #flag(modifier: string, before: string | undefined): void {
    if (before === "re" || REGEX_FLAGS.includes(before ?? "")) this.#flags += modifier;
    else this.#refuse(modifier, "must follow re");
  }

  #setPart(modifier: string): void {
    if (this.#kind !== "text" || this.#position !== "is" || this.#part || this.field === "") {
      return this.#refuse(modifier, "must come before any comparison");
    }
    this.#part = modifier as FieldTests["part"];
  }

  #setKind(modifier: string): void {
    const isNumber = NUMBERS.includes(modifier);
    const isChanged = this.#values.some(({ kind }) => kind === "bytes") || this.#position !== "is";
    if (this.#kind !== "text" || isChanged && modifier !== "fieldref") {
      return this.#refuse(modifier, NOT_COMBINED);
    }
    if (this.field === "" && modifier !== "re") return this.#refuse(modifier, "needs a field");
    if (!isNumber) this.#kind = modifier as Kind;
    else [this.#kind, this.#operator] = ["number", modifier as NumberOperator];
  }

  #bound(modifier: string): void {
    if (this.#kind !== "text" && this.#kind !== "fieldref" || this.#position !== "is" || this.#part) {
      return this.#refuse(modifier, NOT_COMBINED);
    }
    this.#position = POSITIONS[modifier];
    if (this.#kind === "fieldref") return;
    this.#values = this.#values.map((value): Value => {
      if (value.kind === "null") {
        this.#reject("value-type", value.line, `${modifier} cannot be used with null`);
        return value;
      }
      const parts = value.kind === "bytes" ? [bytesText(value.bytes)] : value.parts;
      return {
        kind: "text",
        line: value.line,
        parts: unbounded(parts, modifier !== "startswith", modifier !== "endswith"),
      };
    });
  }

  /** Replaces each text by its variants. */
  #texts(modifier: string, change: (value: TextValue) => GlobPart[][]): void {
    if (this.#kind !== "text") {
      return this.#refuse(modifier, NOT_COMBINED);
    }
    this.#values = this.#values.flatMap((value): Value[] => {
      if (value.kind === "text") {
        return change(value).map((parts) => ({ kind: "text", parts, line: value.line }));
      }
      this.#reject("value-type", value.line, `${modifier} needs a text`);
      return [];
    });
  }

  #windash(parts: GlobPart[]): GlobPart[][] {
    return this.context.take(windashCount(parts) - 1) ? windash(parts) : [];
  }

  /** Replaces `%name%` by each of its values; `\%` is a percent sign. */
  #expand({ parts, line }: TextValue): GlobPart[][] {
    let texts: GlobPart[][] = [[]];
    const append = (variants: GlobPart[][]) => {
      texts = texts.flatMap((text) => variants.map((variant) => [...text, ...variant]));
    };
    for (const part of parts) {
      if (typeof part !== "string") {
        append([[part]]);
        continue;
      }
      let from = 0;
      for (const { index, 0: whole, 1: key } of part.matchAll(/(?<!\\)%(\w+)%/g)) {
        append([[part.slice(from, index).replaceAll("\\%", "%")]]);
        from = index + whole.length;
        const values = Object.hasOwn(this.context.placeholders, key)
          ? this.context.placeholders[key]
          : undefined;
        if (!values) {
          this.#reject(
            "placeholder",
            line,
            `the placeholder %${key}% has no values; give them in a file of placeholders`,
          );
          return [];
        }
        if (!this.context.take(texts.length * (values.length - 1))) return [];
        append(values.map((value) => parseText(String(value))));
      }
      append([[part.slice(from).replaceAll("\\%", "%")]]);
    }
    return texts;
  }

  #encode(modifier: string, encode: (text: string) => Uint8Array): void {
    if (this.#kind !== "text") {
      return this.#refuse(modifier, NOT_COMBINED);
    }
    this.#values = this.#values.map((value): Value => {
      const text = value.kind === "text" ? literalOf(value.parts) : undefined;
      if (text !== undefined) return { kind: "bytes", bytes: encode(text), line: value.line };
      this.#reject("value-encoding", value.line, `${modifier} needs a text without wildcards`);
      return value;
    });
  }

  #base64(modifier: "base64" | "base64offset"): void {
    if (this.#kind !== "text") {
      return this.#refuse(modifier, NOT_COMBINED);
    }
    this.#values = this.#values.flatMap((value): Value[] => {
      const bytes = value.kind === "bytes" ? value.bytes : this.#plainBytes(value, modifier);
      if (!bytes) return [];
      const texts = modifier === "base64" ? [bytes.toBase64()] : base64Offsets(bytes);
      if (texts.some((text) => text === "")) {
        this.#reject("value-encoding", value.line, `the value is too short for ${modifier}`);
      }
      if (!this.context.take(texts.length - 1)) return [];
      return texts.map((text) => ({ kind: "text", parts: [text], line: value.line }));
    });
  }

  /** UTF-8 of a text without wildcards. */
  #plainBytes(value: Value, modifier: string): Uint8Array | undefined {
    const text = value.kind === "text" ? literalOf(value.parts) : undefined;
    if (text !== undefined) return new TextEncoder().encode(text);
    this.#reject("value-encoding", value.line, `${modifier} needs a text without wildcards`);
  }

  #tests(): PlanTest[] {
    if (this.#part && this.#kind !== "number" && this.#kind !== "text") {
      this.#refuse(this.#part, "compares with numbers only");
      return [];
    }
    switch (this.#kind) {
      case "text":
        return this.#values.map((value) => this.#textTest(value));
      case "re":
        return this.scalars.map((scalar) => this.#regexTest(scalar));
      case "cidr":
        return this.scalars.map((scalar) => this.#cidrTest(scalar));
      case "number":
        return this.scalars.map((scalar) => this.#numberTest(scalar));
      case "exists":
        return this.#existsTest();
      default:
        return this.scalars.map((scalar) => this.#refTest(scalar));
    }
  }

  #textTest(value: Value): PlanTest {
    if (value.kind === "null") return { t: "null" };
    const parts = value.kind === "bytes" ? [bytesText(value.bytes)] : value.parts;
    // A keyword matches anywhere in a text.
    const bounded = this.field === "" && this.#position === "is" ? unbounded(parts, true, true) : parts;
    return textTest(bounded, this.#cased);
  }

  #regexTest({ value, line }: ScalarNode): PlanTest {
    const re = String(value);
    const flags = [...new Set(this.#flags)].sort().join("");
    try {
      compileRegex(re, flags);
    } catch (error) {
      this.#reject("regex", line, `${quote(re)}: ${(error as Error).message}`);
    }
    return { t: "re", re, flags };
  }

  #cidrTest({ value, line }: ScalarNode): PlanTest {
    const net = String(value);
    if (!parseCidr(net)) {
      this.#reject("cidr", line, `${quote(net)} is not a network such as 10.0.0.0/8`);
    }
    return { t: "cidr", net };
  }

  #numberTest({ value, line }: ScalarNode): PlanTest {
    const n = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
    if (typeof n === "number" && Number.isFinite(n)) return { t: "number", op: this.#operator, n };
    this.#reject("value-type", line, `${this.#operator} needs a number`);
    return { t: "number", op: this.#operator, n: 0 };
  }

  #existsTest(): PlanTest[] {
    const [{ value, line }] = this.scalars;
    if (typeof value !== "boolean" || this.scalars.length > 1) {
      this.#reject("value-type", line, `exists must be true or false`);
    }
    if (value === false) this.#negated = !this.#negated;
    return [{ t: "present" }];
  }

  #refTest({ value, line }: ScalarNode): PlanTest {
    const on = this.context.sources(String(value));
    if (!on) {
      this.#notes.warn("field-unknown", line, `field ${quote(String(value))} is never there`);
    }
    return { t: "ref", at: this.#position, on: on ?? [], ...(this.#cased && { cased: true }) };
  }
}
