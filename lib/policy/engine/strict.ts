/** Tests in expressions, and the fields whose absence makes them false. */
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
export function partsOf(node: ASTNode): readonly ASTNode[] {
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
