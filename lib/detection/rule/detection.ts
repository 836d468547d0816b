/** The detection of a rule, or of a filter: its selections and its condition. */
import { entryOf, type MapNode, scalarOf, type TreeNode } from "../tree/mod.ts";
import { quote } from "../sigma/notes.ts";
import { readCondition } from "./condition.ts";
import type { Placeholders, ValueContext } from "./modifier.ts";
import type { RuleNotes } from "./notes.ts";
import { type PlanExpr, RULE_VALUES_MAX, SELECTIONS_MAX } from "./plan.ts";
import { anyOf, readSelection } from "./selection.ts";
import type { Logsource } from "./taxonomy.ts";

/** Selections and the condition over them. */
export interface Detection {
  selections: PlanExpr[];
  condition: PlanExpr;
}

/**
 * Reads a detection.
 *
 * @param ignored keys that are no selections
 * @param offset place of its first selection among all of the rule
 * @returns `undefined` if it is invalid, with the reason in the notes
 */
export function readDetection(
  map: MapNode,
  { sources }: Pick<Logsource, "sources">,
  { notes, placeholders, ignored = [], offset = 0 }: {
    notes: RuleNotes;
    placeholders: Placeholders;
    ignored?: readonly string[];
    offset?: number;
  },
): Detection | undefined {
  const errors = notes.errors.length;
  const timeframe = entryOf(map, "timeframe");
  if (timeframe) {
    notes.reject("timeframe", timeframe.line, "timeframe is not part of Sigma 2; write a correlation");
  }
  const entries = map.entries.filter(({ key }) => !["condition", "timeframe", ...ignored].includes(key));
  if (entries.length > SELECTIONS_MAX) {
    notes.reject("limit", map.line, `the rule has more than ${SELECTIONS_MAX} selections`);
    return undefined;
  }
  const context: ValueContext = { notes, placeholders, sources, take: share(map.line, notes) };
  const exprs = entries.map(({ key, value }) => readSelection(key, value, context) ?? false);
  const selections = exprs.filter((expr) => typeof expr !== "boolean");
  const byName = new Map(entries.map(({ key }, at): [string, PlanExpr] => {
    const expr = exprs[at];
    return [key, typeof expr === "boolean" ? expr : { sel: offset + selections.indexOf(expr) }];
  }));
  const condition = conditionOf(map, byName, notes);
  if (condition === undefined || notes.errors.length > errors) return undefined;
  return { selections, condition };
}

/** A rule's share of values. */
function share(line: number, notes: RuleNotes): (count: number) => boolean {
  let left = RULE_VALUES_MAX;
  return (count) => {
    const had = left >= 0;
    left -= count;
    if (left >= 0) return true;
    if (had) notes.reject("limit", line, `the rule has more than ${RULE_VALUES_MAX} values`);
    return false;
  };
}

/** Conditions of a list are alternatives. */
function conditionOf(
  map: MapNode,
  byName: ReadonlyMap<string, PlanExpr>,
  notes: RuleNotes,
): PlanExpr | undefined {
  const entry = entryOf(map, "condition");
  if (!entry) {
    notes.reject("condition", map.line, "condition is missing");
    return undefined;
  }
  const nodes: TreeNode[] = entry.value.kind === "list" ? entry.value.items : [entry.value];
  const parts = nodes.map((node) => {
    const text = scalarOf(node);
    if (typeof text === "string") return readCondition(text, node.line, byName, notes);
    notes.reject("condition", node.line, `condition ${quote(String(text))} is not text`);
  });
  if (parts.length === 0) notes.reject("condition", entry.line, "condition is an empty list");
  return parts.length > 0 && parts.every((part) => part !== undefined) ? anyOf(parts) : undefined;
}
