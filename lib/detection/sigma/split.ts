/** Split of an unsupported rule into supported rules that match the same events. */
import type { Entry, TreeNode } from "../tree/mod.ts";
import { type Condition, namesOf, parseCondition } from "./condition.ts";
import { Notes } from "./notes.ts";
import { fieldsOf } from "./selection.ts";

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
 * Computes an exact split. The condition may use selections with `and`, `or`, `1 of` and `all of`; each selection is a
 * map of fields to exact values, or a list of such maps; combined selections share no field, because both values would
 * have to match.
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
