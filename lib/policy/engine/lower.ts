/**
 * Lowers a match expression to CEL for the library: fields become flat variables, every test is wrapped so
 * that an absent field makes it false (docs/design/contracts/05-policy.md §5), and loops are metered.
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { parseCidr } from "../../base/address/mod.ts";
import { catalogue } from "../../event/mod.ts";
import { DEPTH_MAX, FIELDS_MAX } from "./cel.ts";
import {
  chainOf,
  COMPARISONS,
  fieldOf,
  fieldsBelow,
  firstRead,
  formatLiteral,
  INT_MAX,
  isHistory,
  isTest,
  LOOPS,
  MatchError,
  quote,
  strictFields,
  TESTS,
  variableOf,
} from "./field.ts";
import { type HistoryQuestion, questionOf } from "./question.ts";
import { compileRegex } from "./regex.ts";

/** Functions replaced by our own implementation. */
const REPLACED_FUNCTIONS: Record<string, string> = {
  matches: "__matches",
  lowerAscii: "__lowerAscii",
  upperAscii: "__upperAscii",
};

/** Lowered expression, with every field mentioned. */
export interface Lowered {
  text: string;
  fields: Set<string>;
  /** questions about earlier events */
  questions: HistoryQuestion[];
}

/** Lowers a parsed expression. @throws {MatchError} */
export function lower(root: ASTNode): Lowered {
  const lowering = new Lowering();
  return { text: lowering.lowerTest(root), fields: lowering.fields, questions: lowering.questions };
}

class Lowering {
  readonly fields = new Set<string>();
  readonly questions: HistoryQuestion[] = [];
  readonly #scope = new Set<string>();
  #loops = 0;
  /** `!` and `-` around the part that is being lowered */
  #signs = 0;

  /** Lowers an expression in a bool position. */
  lowerTest(node: ASTNode): string {
    switch (node.op) {
      case "&&":
      case "||":
        return `(${this.lowerTest(node.args[0])} ${node.op} ${this.lowerTest(node.args[1])})`;
      case "!_":
        return this.#nest(node, () => `!${this.lowerTest(node.args)}`);
      case "?:":
        return `(${this.lowerTest(node.args[0])} ? ${this.lowerTest(node.args[1])} : ${
          this.lowerTest(node.args[2])
        })`;
      case "value":
        return formatLiteral(node);
    }
    return isTest(node) ? this.#lowerValue(node) : this.#wrap(node, this.#lowerValue(node));
  }

  /** Lowers an expression in any position. */
  #lowerValue(node: ASTNode): string {
    switch (node.op) {
      case "value":
        return formatLiteral(node);
      case "id":
      case ".":
        return this.#lowerReference(node);
      case "&&":
      case "||":
      case "!_":
        return this.lowerTest(node);
      case "?:":
        return `(${this.lowerTest(node.args[0])} ? ${this.#lowerValue(node.args[1])} : ${
          this.#lowerValue(node.args[2])
        })`;
      case "[]":
        return `${this.#lowerValue(node.args[0])}[${this.#lowerValue(node.args[1])}]`;
      case "list":
        return `[${node.args.map((element) => this.#lowerValue(element)).join(", ")}]`;
      case "map":
        return this.#lowerMap(node);
      case "-_":
        if (node.args.op === "value" && node.args.args === INT_MAX + 1n) return `(-${node.args.args})`;
        return this.#nest(node, () => `-(${this.#lowerValue(node.args)})`);
      case "+":
        return `__meter(${this.#lowerValue(node.args[0])} + ${this.#lowerValue(node.args[1])})`;
      case "-":
      case "*":
      case "/":
      case "%":
        return `(${this.#lowerValue(node.args[0])} ${node.op} ${this.#lowerValue(node.args[1])})`;
      case "call":
        return this.#lowerCall(node);
      case "rcall":
        return this.#lowerMethod(node);
    }
    if (COMPARISONS.has(node.op)) {
      const [left, right] = node.args as [ASTNode, ASTNode];
      return this.#wrap(node, `(${this.#lowerValue(left)} ${node.op} ${this.#lowerValue(right)})`);
    }
    throw new MatchError(`the operator ${node.op} is not supported in rules`, node.start);
  }

  /**
   * The library bounds every other nesting. Without a bound of ours, the stack is
   * one that differs from run to run.
   */
  #nest(node: ASTNode, lowered: () => string): string {
    if (++this.#signs > DEPTH_MAX) throw new MatchError("the expression is nested too deeply", node.start);
    const text = lowered();
    this.#signs--;
    return text;
  }

  #lowerReference(node: ASTNode): string {
    const field = fieldOf(node, this.#scope);
    if (field) {
      this.fields.add(field.path);
      return [this.#meter(variableOf(field.path)), ...field.rest].join(".");
    }
    if (node.op === "id") return this.#scope.has(node.args) ? this.#meter(node.args) : node.args;
    const [left, name] = node.args as [ASTNode, string];
    return `${this.#lowerValue(left)}.${name}`;
  }

  /** Charges each reference in a loop by its size, since any operator may traverse it. */
  #meter(variable: string): string {
    return this.#loops ? `__meter(${variable})` : variable;
  }

  #lowerMap(node: ASTNode & { op: "map" }): string {
    const keys = new Set<unknown>();
    const entries = node.args.map(([key, value]) => {
      if (key.op === "value") {
        if (keys.has(key.args)) throw new MatchError(`duplicate map key ${formatLiteral(key)}`, key.start);
        keys.add(key.args);
      }
      return `${this.#lowerValue(key)}: ${this.#lowerValue(value)}`;
    });
    return `{${entries.join(", ")}}`;
  }

  #lowerCall(node: ASTNode & { op: "call" }): string {
    const [name, args] = node.args;
    if (name === "has" && args.length === 1) return this.#lowerHas(args[0]);
    if (name === "matches" && args.length === 2) return this.#lowerFunction(node, name, args[0], [args[1]]);
    if (name.startsWith("__")) throw new MatchError(`unknown function ${name}`, node.start);
    if (name === "in_cidr") requireCidr(args[1]);
    const text = `${name}(${args.map((arg) => this.#lowerValue(arg)).join(", ")})`;
    return TESTS.has(name) ? this.#wrap(node, text) : text;
  }

  #lowerMethod(node: ASTNode & { op: "rcall" }): string {
    const [name, receiver, args] = node.args;
    const [first, ...rest] = args;
    if (isHistory(node) && !this.#scope.has("history")) {
      const question = questionOf(node);
      this.questions.push(question);
      return `${question.op === "seen" || question.op === "known" ? "__seen" : "__history"}(${
        quote(question.key)
      })`;
    }
    if (name.startsWith("__")) throw new MatchError(`unknown function ${name}`, node.start);
    if (LOOPS.has(name) && first?.op === "id") {
      // The elements of an empty list have no type for operator overloads.
      const range = receiver.op === "list" && !receiver.args.length ? "dyn([])" : this.#lowerValue(receiver);
      const body = this.#withVariable(
        first,
        () =>
          rest.map((part, at) =>
            name === "map" && at === rest.length - 1 ? this.#lowerValue(part) : this.lowerTest(part)
          ),
        1,
      );
      const text = `__steps(${range}).${name}(${[first.args, ...body].join(", ")})`;
      return TESTS.has(name) ? this.#wrap(node, text) : text;
    }
    if (
      name === "bind" && receiver.op === "id" && receiver.args === "cel" && first?.op === "id" &&
      rest.length === 2
    ) {
      const value = this.#lowerValue(rest[0]);
      return `cel.bind(${first.args}, ${value}, ${
        this.#withVariable(first, () => this.#lowerValue(rest[1]), 0)
      })`;
    }
    return this.#lowerFunction(node, name, receiver, args);
  }

  #lowerFunction(node: ASTNode, name: string, receiver: ASTNode, args: ASTNode[]): string {
    if (name === "matches") requireRegex(args[0]);
    const list = args.map((arg) => this.#lowerValue(arg)).join(", ");
    const text = `${this.#lowerValue(receiver)}.${REPLACED_FUNCTIONS[name] ?? name}(${list})`;
    return TESTS.has(name) ? this.#wrap(node, text) : text;
  }

  #withVariable<T>(variable: ASTNode & { op: "id" }, run: () => T, loops: number): T {
    const name = variable.args;
    if (name.includes("__")) throw new MatchError(`a variable name must not contain "__"`, variable.start);
    const isShadowing = this.#scope.has(name);
    this.#scope.add(name);
    this.#loops += loops;
    try {
      return run();
    } finally {
      if (!isShadowing) this.#scope.delete(name);
      this.#loops -= loops;
    }
  }

  #lowerHas(node: ASTNode): string {
    const names = chainOf(node);
    if (!names || node.op !== ".") {
      throw new MatchError("has() needs a field, such as has(http.request.host)", node.start);
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

  /**
   * Wraps a test in `__is`, so that an absent field makes it false; most absent
   * keys are found before it runs.
   */
  #wrap(node: ASTNode, test: string): string {
    const read = firstRead(node, this.#scope);
    const text = read ? `__at(${variableOf(read.path)}, ${quote(JSON.stringify(read.keys))}, ${test})` : test;
    const variables = [...new Set(strictFields(node, this.#scope).map(variableOf))];
    return chunks(variables).reduce(
      (inner, some) => `__is(${[...some, inner].join(", ")})`,
      variables.length ? text : `__is(${text})`,
    );
  }
}

function requireRegex(pattern: ASTNode | undefined): void {
  if (pattern?.op !== "value" || typeof pattern.args !== "string") {
    throw new MatchError("matches() needs a literal pattern", pattern?.start);
  }
  try {
    compileRegex(pattern.args);
  } catch (error) {
    throw new MatchError(`invalid pattern: ${(error as Error).message}`, pattern.start);
  }
}

function requireCidr(network: ASTNode | undefined): void {
  if (network?.op === "value" && typeof network.args === "string" && parseCidr(network.args)) return;
  throw new MatchError(`in_cidr() needs a literal network, such as "10.0.0.0/8"`, network?.start);
}

function chunks(variables: string[]): string[][] {
  const parts: string[][] = [];
  for (let at = 0; at < variables.length; at += FIELDS_MAX) parts.push(variables.slice(at, at + FIELDS_MAX));
  return parts;
}
