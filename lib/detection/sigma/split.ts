/** Whether a rule that is refused could be written as several that are not, and find the same events. */
import type { Entry, TreeNode } from "../tree/mod.ts";
import { type Condition, namesOf, parseCondition } from "./condition.ts";
import { Notes } from "./notes.ts";
import { fieldsOf } from "./selection.ts";

/** Rules that together find what one rule finds; an event may be found by more than one of them. */
export interface Split {
  rules: number;
  /** selections that become one, of each rule: `selection_a + selection_b`; an element of a list is `selection[0]` */
  parts: string[];
}

/** Most rules that a split is worth. */
const SPLIT_MAX = 100;

/** One rule of a split: its fields, by where they are from. */
interface Part {
  from: string[];
  fields: Set<string>;
}

/**
 * The split of a rule, exact or none: its condition is made of selections with and, or, 1 of and all of; every
 * selection is a map of fields to exact values or a list of such maps; and no two that are to become one have a field
 * in common, of which then both would have to hold. Undefined when the rule is one already.
 */
export function splitOf(condition: string, selections: readonly Entry[]): Split | undefined {
  // Most rules are one already.
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
      return node && partsOfSelection(condition.name, node);
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
      return all.every((parts) => parts !== undefined) ? bounded(all.flat()) : undefined;
    }
    case "and":
      return condition.parts.map((part) => partsOf(part, selections)).reduce(joined);
    case "not":
      return undefined;
  }
}

function partsOfSelection(name: string, node: TreeNode): Part[] | undefined {
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
  return parts.every((part) => part !== undefined) ? bounded(parts) : undefined;
}

/** Every part of one side with every part of the other. */
function joined(left: Part[] | undefined, right: Part[] | undefined): Part[] | undefined {
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

function bounded(parts: Part[]): Part[] | undefined {
  return parts.length <= SPLIT_MAX ? parts : undefined;
}
