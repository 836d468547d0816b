/** Finds an event on which a condition holds, to show people what a rule really does. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { catalogue, type Event, type EventType, type PolicyContext } from "../../event/mod.ts";
import { resetCost } from "../engine/cel.ts";
import type { Program } from "../engine/compile.ts";
import { type Condition, masksOf, type Probe, TYPES } from "../engine/condition.ts";
import { FlatEvent } from "../engine/flat.ts";
import { regex } from "../engine/regex.ts";

/** Values by path. */
type Assignment = ReadonlyMap<string, unknown>;

/** Most assignments that are tried for one condition. */
const TRIES_MAX = 200;

/**
 * An event on which `condition` is `wanted`, checked by running `program`; `undefined` when none was found, which
 * proves nothing.
 */
export function witnessOf(condition: Condition, program: Program, wanted = true): PolicyContext | undefined {
  const masks = masksOf(condition);
  const types = TYPES.filter((_, bit) => (wanted ? masks.yes : masks.no) & 1 << bit);
  let tries = 0;
  for (const assignment of solve(condition, wanted, new Map())) {
    if (tries++ > TRIES_MAX) return undefined;
    for (const type of typesFor(types, assignment)) {
      const event = eventOf(type, assignment);
      if (holds(program, event) === wanted) return event;
    }
  }
}

/** Whether an expression is true on an event; one that fails is not. */
export function holds(program: Program, event: PolicyContext): boolean {
  resetCost();
  try {
    return program(new FlatEvent(event as unknown as Event)) === true;
  } catch {
    return false;
  }
}

/** An event of a type with nothing but the values given. */
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

/** Types of the family that the values are of, if they are of one. */
function typesFor(types: readonly EventType[], assignment: Assignment): readonly EventType[] {
  const families = new Set(
    [...assignment.keys()].map((path) => path.split(".")[0]).filter((root) => root !== "common"),
  );
  const fitting = types.filter((type) => [...families].every((family) => type.startsWith(`${family}.`)));
  return fitting.slice(0, 2);
}

function* solve(condition: Condition, wanted: boolean, known: Assignment): Generator<Assignment> {
  switch (condition.kind) {
    case "constant":
      if (condition.value === wanted) yield known;
      return;
    case "not":
      return yield* solve(condition.part, !wanted, known);
    case "test":
      return yield* wanted ? solveTest(condition, known) : failTest(condition, known);
  }
  const all = (condition.kind === "and") === wanted;
  if (!all) {
    for (const part of condition.parts) yield* solve(part, wanted, known);
  } else yield* solveAll(condition.parts, wanted, known);
}

function* solveAll(parts: readonly Condition[], wanted: boolean, known: Assignment): Generator<Assignment> {
  const [first, ...rest] = parts;
  if (!first) return yield known;
  for (const assignment of solve(first, wanted, known)) yield* solveAll(rest, wanted, assignment);
}

/** An absent field makes a test false; so does a value that nobody would have written. */
function* failTest({ strict }: Condition & { kind: "test" }, known: Assignment): Generator<Assignment> {
  yield known;
  const free = strict.filter((path) => !known.has(path) && !path.startsWith("common."));
  for (const path of free) {
    const { type, values } = catalogue.get(path)!;
    const other = type === "string"
      ? values?.at(-1) ?? "other.example"
      : type === "number"
      ? 1
      : type === "bool"
      ? false
      : undefined;
    if (other !== undefined) yield new Map([...known, [path, other]]);
  }
}

function* solveTest(
  { node, strict, probes }: Condition & { kind: "test" },
  known: Assignment,
): Generator<Assignment> {
  for (const probe of probes) {
    for (const value of [...sampleFor(node), ...valuesOf(probe)]) {
      const before = known.get(probe.path);
      if (before === undefined || before === value) {
        yield filled(new Map([...known, [probe.path, value]]), strict);
      }
    }
  }
  // What has no probe is guessed from the literals in it; the caller checks every guess.
  const free = strict.filter((path) => !known.has(path));
  const literals = [...sampleFor(node), ...literalsIn(node)];
  for (const path of free) {
    for (const value of guesses(path, literals)) yield filled(new Map([...known, [path, value]]), strict);
  }
  if (!free.length) yield known;
}

/** Values at which a probe hits, the plainest first. */
export function valuesOf({ op, values }: Probe): unknown[] {
  return values.slice(0, 8).flatMap((value) => {
    const text = String(value);
    if (op === "prefix") return [text, `${text}x`];
    if (op === "suffix") return [text.startsWith(".") ? `www${text}` : text, `x${text}`];
    return op === "contains" ? [text, `x${text}x`] : [value];
  });
}

/** A text that the pattern matches, made by leaving out what is special in it. */
export function sampleOf(pattern: string): string | undefined {
  const texts = [
    pattern.replace(/\\b/g, "").replace(/\\([^A-Za-z0-9])/g, "$1").replace(/^\^|\$$/g, ""),
    pattern.replace(/\([^()]*\)[?*]/g, "").replace(/\(([^()|]*)(\|[^()]*)?\)/g, "$1")
      .replace(/\[\^?[^\]]*\][+*?]?|\.[+*?]|\\w[+*]?|\\d[+*]?/g, "a").replace(/\\([^A-Za-z0-9])/g, "$1")
      .replace(/^\^|\$$/g, ""),
  ];
  return texts.find((text) => /^[A-Za-z0-9.-]+$/.test(text) && regex(pattern).test(text));
}

/** A value for the pattern of `matches`, where that is what a test is. */
function sampleFor(node: ASTNode): string[] {
  if (node.op !== "rcall" || node.args[0] !== "matches") return [];
  const sample = sampleOf(String(node.args[2][0].args));
  return sample === undefined ? [] : [sample];
}

function filled(assignment: Map<string, unknown>, strict: readonly string[]): Assignment {
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

/** Every literal in an expression. */
function literalsIn(node: unknown): unknown[] {
  if (Array.isArray(node)) return node.flatMap(literalsIn);
  if (node === null || typeof node !== "object" || !("op" in node)) return [];
  const { op, args } = node as ASTNode;
  return op === "value" ? [args] : literalsIn(args);
}
