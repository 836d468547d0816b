/** Parts of parsed expressions: fields of events, tests and literals. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { catalogue, type Event, getterOf, nearestField } from "../../event/mod.ts";
import { suggestion } from "../../base/text/mod.ts";

/** Error in a match expression; `at` is an offset into its text. */
export class MatchError extends Error {
  constructor(message: string, readonly at = 0) {
    super(message);
  }
}

/** Catalogue field, with further keys into a map or a dynamic value. */
export interface FieldReference {
  path: string;
  rest: string[];
}

/** CEL types and namespaces. */
const LANGUAGE = new Set([
  "bool",
  "int",
  "uint",
  "double",
  "string",
  "bytes",
  "list",
  "map",
  "null_type",
  "type",
  "cel",
  "google",
  "history",
]);
const ROOTS = new Set([...catalogue.keys()].map((path) => path.split(".")[0]));

/** Names of a chain `a.b.c`; `undefined` for a chain that does not begin with a name. */
export function chainOf(node: ASTNode): string[] | undefined {
  const names: string[] = [];
  let here = node;
  while (here.op === ".") {
    names.unshift(here.args[1]);
    here = here.args[0];
  }
  return here.op === "id" ? [here.args, ...names] : undefined;
}

/**
 * Resolves a chain to a field; `undefined` for a macro variable and for other expressions.
 *
 * @throws {MatchError} for an unknown field, with the nearest one
 */
export function fieldOf(node: ASTNode, scope: ReadonlySet<string>): FieldReference | undefined {
  const names = chainOf(node);
  if (!names || scope.has(names[0]) || LANGUAGE.has(names[0])) return undefined;
  for (let length = names.length; length > 0; length--) {
    const path = names.slice(0, length).join(".");
    const field = catalogue.get(path);
    if (!field) continue;
    if (length < names.length && field.type !== "map") break;
    return { path, rest: names.slice(length) };
  }
  throw unknownFieldError(names, node.start);
}

/** Paths of the fields below an object such as `http.request`; empty for an unknown object. */
export function fieldsBelow(object: string): string[] {
  return [...catalogue.keys()].filter((path) => path.startsWith(`${object}.`));
}

function unknownFieldError(names: string[], at: number): MatchError {
  const path = names.join(".");
  const below = fieldsBelow(path);
  if (below.length) {
    return new MatchError(`${path} is an object; compare one of its fields, such as ${below[0]}`, at);
  }
  if (!ROOTS.has(names[0]) && names.length === 1) {
    const near = nearestField(path);
    return new MatchError(`unknown name ${path}${near ? `; ${suggestion(near)}` : ""}`, at);
  }
  const near = nearestField(path) ?? fieldWithLastName(names);
  return new MatchError(`unknown field ${path}${near ? `; ${suggestion(near)}` : ""}`, at);
}

/** Field with the same last name in the same family, such as `http.request.host` for `http.host`. */
function fieldWithLastName(names: string[]): string | undefined {
  return [...catalogue.keys()].find((path) =>
    path.startsWith(`${names[0]}.`) && path.endsWith(`.${names.at(-1)}`)
  );
}

// Events as CEL variables: one per catalogue field, so that an absent field is an undefined variable.

/** CEL variable of a field: `http.request.host` → `http__request__host`. */
export function variableOf(path: string): string {
  return path.replaceAll(".", "__");
}

/** Variables of one event, read on demand. CEL integers are bigints. */
export class FlatEvent {
  constructor(readonly event: Event) {}
}

for (const [path, { cel }] of catalogue) {
  const read = getterOf(path);
  Object.defineProperty(FlatEvent.prototype, variableOf(path), {
    get: cel === "int"
      ? function (this: FlatEvent) {
        const value = read(this.event);
        return value === undefined ? undefined : BigInt(value as number);
      }
      : function (this: FlatEvent) {
        return read(this.event);
      },
  });
}

// Tests: the fields whose absence makes them false, and the reads by key that they make first, so that an
// absent key is found without an exception.

/** Macros that evaluate an expression per element. */
export const LOOPS = new Set(["all", "exists", "exists_one", "map", "filter"]);
/** Comparison operators, which are tests. */
export const COMPARISONS = new Set(["==", "!=", "<", "<=", ">", ">=", "in"]);
/** Functions that are tests. */
export const TESTS = new Set([
  "startsWith",
  "endsWith",
  "contains",
  "matches",
  "is_private_host",
  "is_model_host",
  "in_domain",
  "in_cidr",
  "all",
  "exists",
  "exists_one",
]);

/** Fields always read by an expression: if one is absent, the test around it is false. */
export function strictFields(node: ASTNode, scope: ReadonlySet<string>, inner = false): string[] {
  if (inner && isTest(node)) return [];
  if (node.op === "id" || node.op === ".") {
    const field = fieldOf(node, scope);
    if (field) return [field.path];
  }
  return partsOf(node).flatMap((each) => strictFields(each, scope, true));
}

/** True for a question about earlier events: `history.count(…)`. */
export function isHistory(node: ASTNode): node is ASTNode & { op: "rcall" } {
  return node.op === "rcall" && node.args[1].op === "id" && node.args[1].args === "history";
}

/** Operands that are always evaluated, independent of the others. */
function partsOf(node: ASTNode): readonly ASTNode[] {
  switch (node.op) {
    case ".":
      return [node.args[0]];
    case "[]":
    case "+":
    case "-":
    case "*":
    case "/":
    case "%":
    case "list":
      return node.args;
    case "-_":
      return [node.args];
    case "call":
      return node.args[0] === "has" ? [] : node.args[1];
    case "rcall":
      if (node.args[0] === "bind" || isHistory(node)) return [];
      return LOOPS.has(node.args[0]) ? [node.args[1]] : [node.args[1], ...node.args[2]];
  }
  return COMPARISONS.has(node.op) ? node.args as ASTNode[] : [];
}

/** True for a test, which is wrapped in `__is` when lowered. */
export function isTest(node: ASTNode): boolean {
  if (node.op === "call") return TESTS.has(node.args[0]) || node.args[0] === "has";
  if (node.op === "rcall") return TESTS.has(node.args[0]) || isHistory(node) && node.args[0] === "seen";
  return COMPARISONS.has(node.op) || node.op === "&&" || node.op === "||" || node.op === "!_";
}

/** Key of a map, or index of a list. */
export type Key = string | number;

/** Value below a field: `http.request.headers["x"][0]` has the keys `x` and `0`. */
interface KeyRead {
  path: string;
  keys: Key[];
}

/**
 * The read by literal keys that a test evaluates first. Nothing before it can fail, so the test is
 * false without it, whatever follows.
 *
 * @returns `undefined` for a test that may fail before, or has no such read
 */
export function firstRead(test: ASTNode, scope: ReadonlySet<string>): KeyRead | undefined {
  const found = isTest(test) ? searchParts(test, scope) : search(test, scope);
  return found === "safe" || found === "unsafe" ? undefined : found;
}

/**
 * The first read of an expression; `safe`: it has none, and cannot fail;
 * `unsafe`: something may fail before it.
 */
function search(node: ASTNode, scope: ReadonlySet<string>): KeyRead | "safe" | "unsafe" {
  if (node.op === "value") return "safe";
  if (node.op === "id" && scope.has(node.args)) return "safe";
  if (isTest(node)) return "unsafe";
  const read = readOf(node, scope);
  if (read) return read.keys.length > 0 ? read : "safe";
  const found = searchParts(node, scope);
  // The operation on the operands may fail.
  return found === "safe" ? "unsafe" : found;
}

function searchParts(node: ASTNode, scope: ReadonlySet<string>): KeyRead | "safe" | "unsafe" {
  // The library evaluates some arguments before their receiver.
  const found = partsOf(node).map((part) => search(part, scope)).filter((result) => result !== "safe");
  return found.length > 1 ? "unsafe" : found[0] ?? "safe";
}

/** A field, or a value below it by literal keys. */
function readOf(node: ASTNode, scope: ReadonlySet<string>): KeyRead | undefined {
  if (node.op === "id" || node.op === ".") {
    const field = fieldOf(node, scope);
    if (field) return { path: field.path, keys: field.rest };
    if (node.op === "id") return undefined;
    const of = readOf(node.args[0], scope);
    return of && { path: of.path, keys: [...of.keys, node.args[1]] };
  }
  if (node.op !== "[]") return undefined;
  const [container, index] = node.args;
  const key = index.op === "value" ? keyOf(index.args) : undefined;
  const of = key === undefined ? undefined : readOf(container, scope);
  return of && { path: of.path, keys: [...of.keys, key!] };
}

function keyOf(literal: unknown): Key | undefined {
  if (typeof literal === "string") return literal;
  const isIndex = typeof literal === "bigint" && literal >= 0n && literal <= Number.MAX_SAFE_INTEGER;
  return isIndex ? Number(literal) : undefined;
}

/** True if a value has no value at these keys; false also where the library must report an error in them. */
export function isAbsent(value: unknown, keys: readonly Key[]): boolean {
  for (const key of keys) {
    if (typeof key === "number") {
      if (!Array.isArray(value)) return false;
      if (key >= value.length) return true;
      value = value[key];
    } else {
      // The library reads `constructor` too, which may be a key of the guest.
      if ((value as object | null | undefined)?.constructor !== Object) return false;
      if (!Object.hasOwn(value as object, key)) return true;
      value = (value as Record<string, unknown>)[key];
    }
  }
  return false;
}

// Literals as CEL text.

/** Largest `int` of CEL. */
export const INT_MAX = 2n ** 63n - 1n;

/** Formats a literal as CEL text. @throws {MatchError} for an integer out of range */
export function formatLiteral(node: ASTNode & { op: "value" }): string {
  const value = node.args;
  if (typeof value === "string") return quote(value);
  if (typeof value === "bigint") {
    if (value > INT_MAX) throw new MatchError(`${value} is out of range for int`, node.start);
    return value < 0n ? `(${value})` : `${value}`;
  }
  if (typeof value === "number") {
    const text = /[.e]/.test(`${value}`) ? `${value}` : `${value}.0`;
    return value < 0 ? `(${text})` : text;
  }
  if (value === null || typeof value === "boolean") return `${value}`;
  if (value instanceof Uint8Array) {
    return `b"${[...value].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}"`;
  }
  return `${value.value}u`;
}

/** Quotes text as a CEL string literal. */
export function quote(text: string): string {
  return `"${
    text.replace(/["\\]/g, "\\$&").replace(
      // deno-lint-ignore no-control-regex
      /[\x00-\x1f\x7f]/g,
      (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
    )
  }"`;
}
