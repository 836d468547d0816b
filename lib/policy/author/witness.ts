/** Conditions compared: example events, to show people the effect of a rule, and implication. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { catalogue, type Event, type EventType, type PolicyContext } from "../../event/mod.ts";
import { resetCost } from "../engine/cel.ts";
import type { Program } from "../engine/compile.ts";
import { type Condition, masksOf, type Probe, TYPES } from "../engine/condition.ts";
import { FlatEvent } from "../engine/field.ts";
import { compileRegex } from "../engine/regex.ts";
import { lower } from "../engine/lower.ts";

/** Field values by path. */
type Assignment = ReadonlyMap<string, unknown>;

/** Maximum assignments tried for one condition. */
const TRIES_MAX = 200;

/**
 * Finds an event on which `condition` is `expected`, verified by running `program`; `undefined` if none
 * was found, which proves nothing.
 */
export function witnessOf(
  condition: Condition,
  program: Program,
  expected = true,
): PolicyContext | undefined {
  const masks = masksOf(condition);
  const types = TYPES.filter((_, bit) => (expected ? masks.yes : masks.no) & 1 << bit);
  let tries = 0;
  for (const assignment of solve(condition, expected, new Map())) {
    if (tries++ > TRIES_MAX) return undefined;
    for (const type of typesFor(types, assignment)) {
      const event = eventOf(type, assignment);
      if (holds(program, event) === expected) return event;
    }
  }
}

/** True if an expression is true on an event; false on an error. */
export function holds(program: Program, event: PolicyContext): boolean {
  resetCost();
  try {
    return program(new FlatEvent(event as unknown as Event)) === true;
  } catch {
    return false;
  }
}

/** Creates an event of a type with only the given values. */
export function eventOf(type: EventType, assignment: Assignment = new Map()): PolicyContext {
  const event: Record<string, unknown> = { schema_version: 1, common: { event_type: type } };
  for (const [path, value] of assignment) {
    const keys = path.split(".");
    let here = event;
    for (const key of keys.slice(0, -1)) here = (here[key] ??= {}) as Record<string, unknown>;
    here[keys.at(-1)!] = value;
  }
  return event as unknown as PolicyContext;
}

/** First two types that fit the family of the values. */
function typesFor(types: readonly EventType[], assignment: Assignment): readonly EventType[] {
  const families = new Set(
    [...assignment.keys()].map((path) => path.split(".")[0]).filter((root) => root !== "common"),
  );
  const candidates = types.filter((type) => [...families].every((family) => type.startsWith(`${family}.`)));
  return candidates.slice(0, 2);
}

function* solve(condition: Condition, expected: boolean, assignment: Assignment): Generator<Assignment> {
  switch (condition.kind) {
    case "constant":
      if (condition.value === expected) yield assignment;
      return;
    case "not":
      return yield* solve(condition.part, !expected, assignment);
    case "test":
      return yield* expected ? solveTest(condition, assignment) : failTest(condition, assignment);
  }
  const all = (condition.kind === "and") === expected;
  if (!all) {
    for (const part of condition.parts) yield* solve(part, expected, assignment);
  } else yield* solveAll(condition.parts, expected, assignment);
}

function* solveAll(
  parts: readonly Condition[],
  expected: boolean,
  assignment: Assignment,
): Generator<Assignment> {
  const [first, ...rest] = parts;
  if (!first) return yield assignment;
  for (const partial of solve(first, expected, assignment)) yield* solveAll(rest, expected, partial);
}

/** Assignments that make a test false: absent fields, or unusual values. */
function* failTest({ strict }: Condition & { kind: "test" }, assignment: Assignment): Generator<Assignment> {
  yield assignment;
  const free = strict.filter((path) => !assignment.has(path) && !path.startsWith("common."));
  for (const path of free) {
    const { type, values } = catalogue.get(path)!;
    const other = type === "string"
      ? values?.at(-1) ?? "other.example"
      : type === "number"
      ? 1
      : type === "bool"
      ? false
      : undefined;
    if (other !== undefined) yield new Map([...assignment, [path, other]]);
  }
}

function* solveTest(
  { node, strict, probes }: Condition & { kind: "test" },
  assignment: Assignment,
): Generator<Assignment> {
  for (const probe of probes) {
    for (const value of [...sampleFor(node), ...valuesOf(probe)]) {
      const before = assignment.get(probe.path);
      if (before === undefined || before === value) {
        yield fillMissing(new Map([...assignment, [probe.path, value]]), strict);
      }
    }
  }
  // Fields without a probe get values guessed from the literals; the caller verifies every guess.
  const free = strict.filter((path) => !assignment.has(path));
  const literals = [...sampleFor(node), ...literalsIn(node)];
  for (const path of free) {
    for (const value of guesses(path, literals)) {
      yield fillMissing(new Map([...assignment, [path, value]]), strict);
    }
  }
  if (!free.length) yield assignment;
}

/** Values that match a probe, simplest first. */
export function valuesOf({ op, values }: Probe): unknown[] {
  return values.slice(0, 8).flatMap((value) => {
    const text = String(value);
    if (op === "prefix") return [text, `${text}x`];
    if (op === "suffix") return [text.startsWith(".") ? `www${text}` : text, `x${text}`];
    return op === "contains" ? [text, `x${text}x`] : [value];
  });
}

/** Text matched by a pattern, made by simplifying its special parts; `undefined` if that fails. */
export function sampleOf(pattern: string): string | undefined {
  const texts = [
    pattern.replace(/\\b/g, "").replace(/\\([^A-Za-z0-9])/g, "$1").replace(/^\^|\$$/g, ""),
    pattern.replace(/\([^()]*\)[?*]/g, "").replace(/\(([^()|]*)(\|[^()]*)?\)/g, "$1")
      .replace(/\[\^?[^\]]*\][+*?]?|\.[+*?]|\\w[+*]?|\\d[+*]?/g, "a").replace(/\\([^A-Za-z0-9])/g, "$1")
      .replace(/^\^|\$$/g, ""),
  ];
  return texts.find((text) => /^[A-Za-z0-9.-]+$/.test(text) && compileRegex(pattern).test(text));
}

/** Sample value for a `matches` test; empty for other tests. */
function sampleFor(node: ASTNode): string[] {
  if (node.op !== "rcall" || node.args[0] !== "matches") return [];
  const sample = sampleOf(String(node.args[2][0].args));
  return sample === undefined ? [] : [sample];
}

function fillMissing(assignment: Map<string, unknown>, strict: readonly string[]): Assignment {
  for (const path of strict) {
    if (!assignment.has(path)) assignment.set(path, guesses(path, [])[0]);
  }
  return assignment;
}

function guesses(path: string, literals: readonly unknown[]): unknown[] {
  const { type, cel, values } = catalogue.get(path)!;
  const texts = literals.filter((literal) => typeof literal === "string");
  const numbers = literals.filter((literal) => typeof literal === "bigint" || typeof literal === "number")
    .map(Number);
  switch (type) {
    case "string":
      return [...texts, ...(values ?? []), "example"];
    case "number":
      return [...numbers.flatMap((number) => [number, number + 1, number - 1]), 0];
    case "bool":
      return [true, false];
    case "list":
      return [...texts, ...numbers].map((literal) => [literal]).concat([[]]);
  }
  const inner = cel.endsWith("list<string>>") ? (text: unknown) => [text] : (text: unknown) => text;
  return texts.flatMap((key) => texts.map((text) => ({ [key as string]: inner(text) }))).concat([{}]);
}

/** Literals in an expression. */
function literalsIn(node: unknown): unknown[] {
  if (Array.isArray(node)) return node.flatMap(literalsIn);
  if (node === null || typeof node !== "object" || !("op" in node)) return [];
  const { op, args } = node as ASTNode;
  return op === "value" ? [args] : literalsIn(args);
}

// Implication between conditions, decided by their form: a true answer is certain.

/** Maximum nesting examined, to bound the time for hostile rules. */
const DEPTH_MAX = 8;

/** True if `b` holds wherever `a` holds; false also if that is not evident from the form. */
export function implies(a: Condition, b: Condition, depth = 0): boolean {
  if (depth > DEPTH_MAX) return false;
  const next = depth + 1;
  if (b.kind === "constant") return b.value || (a.kind === "constant" && !a.value);
  if (a.kind === "constant") return !a.value;
  if (b.kind === "and") return b.parts.every((part) => implies(a, part, next));
  if (a.kind === "or") return a.parts.every((part) => implies(part, b, next));
  if (b.kind === "or" && b.parts.some((part) => implies(a, part, next))) return true;
  if (a.kind === "and") return a.parts.some((part) => implies(part, b, next));
  // An absent field makes a test false, not unknown, so the contrapositive holds.
  if (a.kind === "not" && b.kind === "not") return implies(b.part, a.part, next);
  if (a.kind === "test" && b.kind === "test") return testImplies(a, b);
  return false;
}

type Test = Condition & { kind: "test" };

function testImplies(a: Test, b: Test): boolean {
  if (formOf(a) === formOf(b)) return true;
  if (isPresence(b)) return b.strict.length === 1 && a.strict.includes(b.strict[0]);
  const [expected] = b.probes;
  if (isDomain(b)) return a.probes.some((probe) => domainImplies(a, probe, expected));
  return expected !== undefined && isExact(b) && a.probes.some((probe) => probeImplies(probe, expected));
}

const forms = new WeakMap<Test, string>();

/** The test with every grouping written out: equal forms are equal tests. */
function formOf(test: Test): string {
  let form = forms.get(test);
  if (form === undefined) forms.set(test, form = lower(test.node).text);
  return form;
}

/** `has(f)` of one field. */
function isPresence({ node }: Test): boolean {
  return node.op === "call" && node.args[0] === "has";
}

/** True for a test equivalent to its probe; a pattern requires more than its literals. */
function isExact({ node }: Test): boolean {
  return !(node.op === "rcall" && node.args[0] === "matches") && !(node.op === "call");
}

/**
 * `in_domain(f, d)`: stricter than its probe, the suffix d: the text before d must be empty or end in a dot.
 */
function isDomain({ node, probes }: Test): boolean {
  return node.op === "call" && node.args[0] === "in_domain" && probes.length === 1;
}

function domainImplies(a: Test, { path, op, values }: Probe, expected: Probe): boolean {
  const domain = String(expected.values[0]);
  return path === expected.path && (op === "equals" || op === "suffix") &&
    values.map(String).every((value) =>
      value.endsWith(`.${domain}`) || (value === domain && (op === "equals" || isDomain(a)))
    );
}

function probeImplies(a: Probe, b: Probe): boolean {
  if (a.path !== b.path) return false;
  return a.values.every((value) =>
    b.values.some((expected) => valueImplies(a.op, String(value), b.op, String(expected)))
  );
}

function valueImplies(op: Probe["op"], value: string, expectedOp: Probe["op"], expected: string): boolean {
  switch (expectedOp) {
    case "equals":
      return op === "equals" && value === expected;
    case "prefix":
      return (op === "equals" || op === "prefix") && value.startsWith(expected);
    case "suffix":
      return (op === "equals" || op === "suffix") && value.endsWith(expected);
    case "contains":
      return value.includes(expected);
  }
}
