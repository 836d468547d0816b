import { nearest } from "../../event/mod.ts";
import { entryOf, type MapNode, scalarOf as scalar, type TreeNode } from "../tree/mod.ts";
import { constructsOf } from "./condition.ts";
import { type Notes, shown } from "./notes.ts";
import { fieldsOf, type SigmaField } from "./selection.ts";
import { type Split, splitOf } from "./split.ts";

/** The detection of a rule, as far as it is supported. */
export interface Detection {
  selection?: string;
  fields?: SigmaField[];
  fieldNames: string[];
  split?: Split;
}

/** Reads selections and condition; everything that is not one selection of exact values goes to `notes`. */
export function detectionOf(root: MapNode, notes: Notes): Detection {
  const detection = entryOf(root, "detection");
  if (detection?.value.kind !== "map") {
    notes.refuse(
      "detection",
      detection?.line ?? root.line,
      "detection is missing; write a selection and a condition",
    );
    return { fieldNames: [] };
  }
  const map = detection.value;
  const timeframe = entryOf(map, "timeframe");
  if (timeframe) {
    notes.refuse("timeframe", timeframe.line, "timeframe counts events; detections look at one at a time");
  }
  const selections = map.entries.filter(({ key }) => key !== "condition" && key !== "timeframe");
  const names = selections.map(({ key }) => key);
  const fields = selections.map(({ key, value }) => fieldsOf(key, value, notes));
  const condition = conditionOf(map, detection.line, names, notes);
  const fieldNames = [...new Set(selections.flatMap(({ value }) => fieldNamesOf(value)))];
  if (selections.length === 0) {
    notes.refuse(
      "selections",
      detection.line,
      "detection has no selection; write selection: with fields below it",
    );
  } else if (selections.length > 1) {
    notes.refuse(
      "selections",
      selections[1].line,
      `there are ${selections.length} selections (${shown(names.join(", "))}); one rule has one`,
    );
  }
  const split = condition === undefined ? undefined : splitOf(condition, selections);
  return {
    ...(selections.length === 1 && { selection: names[0], ...(fields[0] && { fields: fields[0] }) }),
    fieldNames,
    ...(split && { split }),
  };
}

/** The condition's text, if it is one; a condition other than the name of a selection goes to `notes`. */
function conditionOf(map: MapNode, line: number, names: string[], notes: Notes): string | undefined {
  const entry = entryOf(map, "condition");
  if (!entry) {
    notes.refuse("condition", line, `condition is missing; write condition: ${names[0] ?? "selection"}`);
    return undefined;
  }
  if (entry.value.kind === "list") {
    notes.refuse(
      "condition-list",
      entry.line,
      "a list of conditions is OR-linked; write one rule for each of them",
    );
    const texts = entry.value.items.map(scalar);
    return texts.every((text) => typeof text === "string")
      ? texts.map((text) => `(${text})`).join(" or ")
      : undefined;
  }
  const written = scalar(entry.value);
  if (typeof written !== "string") {
    notes.refuse("condition", entry.line, "condition must be the name of the selection");
    return undefined;
  }
  const text = written.trim();
  if (names.includes(text)) return text;
  const constructs = constructsOf(text);
  for (const construct of constructs) {
    notes.refuse(construct, entry.line, `condition ${shown(text)}: ${INSTEAD[construct]}`);
  }
  if (!constructs.length) {
    const near = nearest(text, names);
    const instead = names.length === 1 ? names[0] : near;
    notes.refuse(
      "condition-selection",
      entry.line,
      `condition ${shown(text)} is not the name of a selection; ${
        instead ? `write condition: ${instead}` : "name one"
      }`,
    );
  }
  return text;
}

const INSTEAD = {
  "condition-aggregation": "aggregations count or order events, which detections do not",
  "condition-not": "filters (not) are not supported; list the exact values that are meant",
  "condition-of": "quantifiers (1 of, all of) are not supported; write one rule for each selection",
  "condition-or": "OR-linked selections are not supported; write one rule for each",
  "condition-and": "AND-linked selections are not supported; write their fields in one selection",
};

function fieldNamesOf(node: TreeNode): string[] {
  if (node.kind === "list") return node.items.flatMap(fieldNamesOf);
  return node.kind === "map" ? node.entries.map(({ key }) => key.split("|")[0]).filter(Boolean) : [];
}
