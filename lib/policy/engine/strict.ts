/**
 * Tests in expressions: the fields whose absence makes them false, and the reads by key that they make
 * first, so that an absent key is found without an exception.
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { fieldOf } from "./field.ts";

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
      if (node.args[0] === "bind") return [];
      return LOOPS.has(node.args[0]) ? [node.args[1]] : [node.args[1], ...node.args[2]];
  }
  return COMPARISONS.has(node.op) ? node.args as ASTNode[] : [];
}

/** True for a test, which is wrapped in `__is` when lowered. */
export function isTest(node: ASTNode): boolean {
  if (node.op === "call") return TESTS.has(node.args[0]) || node.args[0] === "has";
  if (node.op === "rcall") return TESTS.has(node.args[0]);
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
 * The read by literal keys that a test evaluates first. Nothing before it can fail, so the test is false without it,
 * whatever follows.
 *
 * @returns `undefined` for a test that may fail before, or has no such read
 */
export function firstRead(test: ASTNode, scope: ReadonlySet<string>): KeyRead | undefined {
  const found = isTest(test) ? searchParts(test, scope) : search(test, scope);
  return found === "safe" || found === "unsafe" ? undefined : found;
}

/** The first read of an expression; `safe`: it has none, and cannot fail; `unsafe`: something may fail before it. */
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
