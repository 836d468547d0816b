/**
 * Lowers a match expression: fields become flat variables, and every test is wrapped so that an absent field makes
 * it false (contracts.md §5). Loops are metered. What comes out is CEL again, for the library to check and run.
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { catalogue } from "../../event/mod.ts";
import { parseCidr } from "../../base/address/address.ts";
import { FIELDS_MAX } from "./cel.ts";
import { chainOf, fieldOf, fieldsBelow, MatchError } from "./field.ts";
import { variableOf } from "./flat.ts";
import { regex } from "./regex.ts";

/** Macros that run an expression per element. */
export const LOOPS = new Set(["all", "exists", "exists_one", "map", "filter"]);
/** Operators whose value is a test. */
export const COMPARISONS = new Set(["==", "!=", "<", "<=", ">", ">=", "in"]);
/** Functions whose value is a test. */
const TESTS = new Set([
  "startsWith",
  "endsWith",
  "contains",
  "matches",
  "is_private_host",
  "in_domain",
  "in_cidr",
  "all",
  "exists",
  "exists_one",
]);
/** Functions that have our own implementation instead of the library's. */
const OURS: Record<string, string> = {
  matches: "__matches",
  lowerAscii: "__lowerAscii",
  upperAscii: "__upperAscii",
};
const INT_MAX = 2n ** 63n - 1n;

/** An expression as text to run, and every field that it mentions. */
export interface Lowered {
  text: string;
  fields: Set<string>;
}

/** @throws MatchError */
export function lower(root: ASTNode): Lowered {
  const lowering = new Lowering();
  return { text: lowering.test(root), fields: lowering.fields };
}

class Lowering {
  readonly fields = new Set<string>();
  readonly #scope = new Set<string>();
  #loops = 0;

  /** An expression where a bool is wanted. */
  test(node: ASTNode): string {
    switch (node.op) {
      case "&&":
      case "||":
        return `(${this.test(node.args[0])} ${node.op} ${this.test(node.args[1])})`;
      case "!_":
        return `!${this.test(node.args)}`;
      case "?:":
        return `(${this.test(node.args[0])} ? ${this.test(node.args[1])} : ${this.test(node.args[2])})`;
      case "value":
        return literal(node);
    }
    return isTest(node) ? this.value(node) : this.#guarded(node, this.value(node));
  }

  /** An expression where any value is wanted. */
  value(node: ASTNode): string {
    switch (node.op) {
      case "value":
        return literal(node);
      case "id":
      case ".":
        return this.#reference(node);
      case "&&":
      case "||":
      case "!_":
        return this.test(node);
      case "?:":
        return `(${this.test(node.args[0])} ? ${this.value(node.args[1])} : ${this.value(node.args[2])})`;
      case "[]":
        return `${this.value(node.args[0])}[${this.value(node.args[1])}]`;
      case "list":
        return `[${node.args.map((element) => this.value(element)).join(", ")}]`;
      case "map":
        return this.#map(node);
      case "-_":
        if (node.args.op === "value" && node.args.args === INT_MAX + 1n) return `(-${node.args.args})`;
        return `-(${this.value(node.args)})`;
      case "+":
        return `__meter(${this.value(node.args[0])} + ${this.value(node.args[1])})`;
      case "-":
      case "*":
      case "/":
      case "%":
        return `(${this.value(node.args[0])} ${node.op} ${this.value(node.args[1])})`;
      case "call":
        return this.#call(node);
      case "rcall":
        return this.#method(node);
    }
    if (COMPARISONS.has(node.op)) {
      const [left, right] = node.args as [ASTNode, ASTNode];
      return this.#guarded(node, `(${this.value(left)} ${node.op} ${this.value(right)})`);
    }
    throw new MatchError(`the operator ${node.op} is not supported in rules`, node.start);
  }

  #reference(node: ASTNode): string {
    const field = fieldOf(node, this.#scope);
    if (field) {
      this.fields.add(field.path);
      return [this.#metered(variableOf(field.path)), ...field.rest].join(".");
    }
    if (node.op === "id") return this.#scope.has(node.args) ? this.#metered(node.args) : node.args;
    const [left, name] = node.args as [ASTNode, string];
    return `${this.value(left)}.${name}`;
  }

  /** In a loop every reference costs its size, since any operator may walk over it. */
  #metered(variable: string): string {
    return this.#loops ? `__meter(${variable})` : variable;
  }

  #map(node: ASTNode & { op: "map" }): string {
    const seen = new Set<unknown>();
    const entries = node.args.map(([key, value]) => {
      if (key.op === "value") {
        if (seen.has(key.args)) throw new MatchError(`the map has the key ${literal(key)} twice`, key.start);
        seen.add(key.args);
      }
      return `${this.value(key)}: ${this.value(value)}`;
    });
    return `{${entries.join(", ")}}`;
  }

  #call(node: ASTNode & { op: "call" }): string {
    const [name, args] = node.args;
    if (name === "has" && args.length === 1) return this.#has(args[0]);
    if (name === "matches" && args.length === 2) return this.#function(node, name, args[0], [args[1]]);
    if (name.startsWith("__")) throw new MatchError(`there is no function ${name}`, node.start);
    if (name === "in_cidr") requireCidr(args[1]);
    const text = `${name}(${args.map((arg) => this.value(arg)).join(", ")})`;
    return TESTS.has(name) ? this.#guarded(node, text) : text;
  }

  #method(node: ASTNode & { op: "rcall" }): string {
    const [name, receiver, args] = node.args;
    const [first, ...rest] = args;
    if (name.startsWith("__")) throw new MatchError(`there is no function ${name}`, node.start);
    if (LOOPS.has(name) && first?.op === "id") {
      // The elements of an empty list have no type that an operator could be chosen by.
      const range = receiver.op === "list" && !receiver.args.length ? "dyn([])" : this.value(receiver);
      const body = this.#within(
        first,
        () =>
          rest.map((part, at) =>
            name === "map" && at === rest.length - 1 ? this.value(part) : this.test(part)
          ),
        1,
      );
      const text = `__steps(${range}).${name}(${[first.args, ...body].join(", ")})`;
      return TESTS.has(name) ? this.#guarded(node, text) : text;
    }
    if (
      name === "bind" && receiver.op === "id" && receiver.args === "cel" && first?.op === "id" &&
      rest.length === 2
    ) {
      const value = this.value(rest[0]);
      return `cel.bind(${first.args}, ${value}, ${this.#within(first, () => this.value(rest[1]), 0)})`;
    }
    return this.#function(node, name, receiver, args);
  }

  #function(node: ASTNode, name: string, receiver: ASTNode, args: ASTNode[]): string {
    if (name === "matches") requireRegex(args[0]);
    const list = args.map((arg) => this.value(arg)).join(", ");
    const text = `${this.value(receiver)}.${OURS[name] ?? name}(${list})`;
    return TESTS.has(name) ? this.#guarded(node, text) : text;
  }

  #within<T>(variable: ASTNode & { op: "id" }, run: () => T, loops: number): T {
    const name = variable.args;
    if (name.includes("__")) throw new MatchError(`a variable's name has no "__"`, variable.start);
    const shadows = this.#scope.has(name);
    this.#scope.add(name);
    this.#loops += loops;
    try {
      return run();
    } finally {
      if (!shadows) this.#scope.delete(name);
      this.#loops -= loops;
    }
  }

  #has(node: ASTNode): string {
    const names = chainOf(node);
    if (!names || node.op !== ".") {
      throw new MatchError("has() takes a field, such as has(http.request.host)", node.start);
    }
    if (this.#scope.has(names[0])) return `__is(has(${names.join(".")}))`;
    const below = catalogue.has(names.join(".")) ? [] : fieldsBelow(names.join("."));
    if (below.length) {
      for (const path of below) this.fields.add(path);
      return `(${chunks(below.map(variableOf)).map((some) => `__has(${some.join(", ")})`).join(" || ")})`;
    }
    const { path, rest } = fieldOf(node, this.#scope)!;
    this.fields.add(path);
    const variable = variableOf(path);
    return rest.length ? `__is(${variable}, has(${[variable, ...rest].join(".")}))` : `__has(${variable})`;
  }

  #guarded(node: ASTNode, text: string): string {
    const variables = [...new Set(strictFields(node, this.#scope).map(variableOf))];
    return chunks(variables).reduce(
      (inner, some) => `__is(${[...some, inner].join(", ")})`,
      variables.length ? text : `__is(${text})`,
    );
  }
}

/** Fields that an expression reads whatever their values are: when one is absent, the test around it is false. */
export function strictFields(node: ASTNode, scope: ReadonlySet<string>, inner = false): string[] {
  if (inner && isTest(node)) return [];
  const all = (nodes: readonly ASTNode[]) => nodes.flatMap((each) => strictFields(each, scope, true));
  switch (node.op) {
    case "id":
    case ".": {
      const field = fieldOf(node, scope);
      if (field) return [field.path];
      return node.op === "." ? all([node.args[0]]) : [];
    }
    case "[]":
    case "+":
    case "-":
    case "*":
    case "/":
    case "%":
    case "list":
      return all(node.args);
    case "-_":
      return all([node.args]);
    case "call":
      return node.args[0] === "has" ? [] : all(node.args[1]);
    case "rcall":
      if (node.args[0] === "bind") return [];
      return LOOPS.has(node.args[0]) ? all([node.args[1]]) : all([node.args[1], ...node.args[2]]);
  }
  return COMPARISONS.has(node.op) ? all(node.args as ASTNode[]) : [];
}

/** Whether the value of a node is a test that guards itself. */
function isTest(node: ASTNode): boolean {
  if (node.op === "call") return TESTS.has(node.args[0]) || node.args[0] === "has";
  if (node.op === "rcall") return TESTS.has(node.args[0]);
  return COMPARISONS.has(node.op) || node.op === "&&" || node.op === "||" || node.op === "!_";
}

function requireRegex(pattern: ASTNode | undefined): void {
  if (pattern?.op !== "value" || typeof pattern.args !== "string") {
    throw new MatchError("matches() takes a pattern that is written out", pattern?.start);
  }
  try {
    regex(pattern.args);
  } catch (error) {
    throw new MatchError(`bad pattern: ${(error as Error).message}`, pattern.start);
  }
}

function requireCidr(network: ASTNode | undefined): void {
  if (network?.op === "value" && typeof network.args === "string" && parseCidr(network.args)) return;
  throw new MatchError(`in_cidr() takes a network that is written out, such as "10.0.0.0/8"`, network?.start);
}

function chunks(variables: string[]): string[][] {
  const parts: string[][] = [];
  for (let at = 0; at < variables.length; at += FIELDS_MAX) parts.push(variables.slice(at, at + FIELDS_MAX));
  return parts;
}

/** A literal as CEL text. */
function literal(node: ASTNode & { op: "value" }): string {
  const value = node.args;
  if (typeof value === "string") return quoted(value);
  if (typeof value === "bigint") {
    if (value > INT_MAX) throw new MatchError(`${value} is beyond the range of int`, node.start);
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

/** Text as a CEL string literal. */
export function quoted(text: string): string {
  return `"${
    text.replace(/["\\]/g, "\\$&").replace(
      // deno-lint-ignore no-control-regex
      /[\x00-\x1f\x7f]/g,
      (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
    )
  }"`;
}
