/** Selections of a Sigma rule: maps, lists of maps, and keywords. */
import { quote } from "../sigma/notes.ts";
import type { Entry, MapNode, TreeNode } from "../tree/mod.ts";
import { type FieldTests, readValues, type ValueContext } from "./modifier.ts";
import type { PlanExpr } from "./plan.ts";

/** Reads a selection. @returns `undefined` if it is invalid, with the reason in the notes */
export function readSelection(name: string, node: TreeNode, context: ValueContext): PlanExpr | undefined {
  if (node.kind === "map") return readMap(name, node, context);
  if (node.kind === "scalar") return readKeywords(node, context);
  if (node.items.length === 0) {
    context.notes.reject("selection", node.line, `${quote(name)} is an empty list`);
    return undefined;
  }
  if (node.items.every(({ kind }) => kind === "scalar")) return readKeywords(node, context);
  const parts = node.items.map((item) => {
    if (item.kind !== "list") return readSelection(name, item, context);
    context.notes.reject("selection", item.line, `${quote(name)}: a list within a list is not a selection`);
  });
  return parts.every((part) => part !== undefined) ? anyOf(parts) : undefined;
}

function readKeywords(node: TreeNode, context: ValueContext): PlanExpr | undefined {
  return toExpr("", readValues("", [], node, node.line, context), context);
}

function readMap(name: string, { entries, line }: MapNode, context: ValueContext): PlanExpr | undefined {
  if (entries.length === 0) {
    context.notes.reject("selection", line, `${quote(name)} is empty`);
    return undefined;
  }
  const parts = entries.map((entry) => readItem(entry, context));
  return parts.every((part) => part !== undefined) ? allOf(parts) : undefined;
}

function readItem({ key, line, value }: Entry, context: ValueContext): PlanExpr | undefined {
  const [field, ...modifiers] = key.split("|");
  const tests = readValues(field, modifiers, value, line, context);
  return toExpr(field, tests, context, line);
}

function toExpr(
  field: string,
  read: FieldTests | undefined,
  { sources, notes }: ValueContext,
  line = 0,
): PlanExpr | undefined {
  if (!read) return undefined;
  const { tests, every, negated, part } = read;
  const mark = every ? { every: true as const } : {};
  if (field === "") {
    if (tests.some(({ t }) => t === "null")) {
      notes.reject("value-type", line, "a keyword cannot be null");
      return undefined;
    }
    return negate({ words: tests, ...mark }, negated);
  }
  const on = sources(field);
  if (on) {
    return negate({ on: part ? on.map((source) => `${source}#${part}`) : on, is: tests, ...mark }, negated);
  }
  notes.warn("field-unknown", line, `field ${quote(field)} is never there`);
  // An absent field is null, and nothing else.
  const isNull = tests.map(({ t }) => t === "null");
  return negate(every ? isNull.every(Boolean) : isNull.some(Boolean), negated);
}

// Expressions without parts that are always true or false.

export function negate(expr: PlanExpr, isNegated = true): PlanExpr {
  if (!isNegated) return expr;
  if (typeof expr === "boolean") return !expr;
  return "not" in expr ? expr.not : { not: expr };
}

export function allOf(parts: readonly PlanExpr[]): PlanExpr {
  if (parts.includes(false)) return false;
  const rest = parts.filter((part) => part !== true);
  return rest.length === 0 ? true : rest.length === 1 ? rest[0] : { all: rest };
}

export function anyOf(parts: readonly PlanExpr[]): PlanExpr {
  if (parts.includes(true)) return true;
  const rest = parts.filter((part) => part !== false);
  return rest.length === 0 ? false : rest.length === 1 ? rest[0] : { any: rest };
}
