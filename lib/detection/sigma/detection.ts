import { nearest } from "../../base/text/mod.ts";
import { entryOf, type MapNode, scalarOf as scalar, type TreeNode } from "../tree/mod.ts";
import { constructsOf } from "./condition.ts";
import { type Notes, quote } from "./notes.ts";
import { fieldsOf, type SigmaField } from "./selection.ts";
import { type Split, splitOf } from "./split.ts";

/** Supported part of a rule's `detection`. */
export interface Detection {
  selection?: string;
  fields?: SigmaField[];
  fieldNames: string[];
  split?: Split;
}

/** Reads selections and condition; constructs beyond one selection of exact values are reported to `notes`. */
export function detectionOf(root: MapNode, notes: Notes): Detection {
  const detection = entryOf(root, "detection");
  if (detection?.value.kind !== "map") {
    notes.reject(
      "detection",
      detection?.line ?? root.line,
      "detection is missing; add one with a selection and a condition",
    );
    return { fieldNames: [] };
  }
  const map = detection.value;
  const timeframe = entryOf(map, "timeframe");
  if (timeframe) {
    notes.reject(
      "timeframe",
      timeframe.line,
      "timeframe is not supported: detections evaluate one event at a time",
    );
  }
  const selections = map.entries.filter(({ key }) => key !== "condition" && key !== "timeframe");
  const names = selections.map(({ key }) => key);
  const fields = selections.map(({ key, value }) => fieldsOf(key, value, notes));
  const condition = conditionOf(map, detection.line, names, notes);
  const fieldNames = [...new Set(selections.flatMap(({ value }) => fieldNamesOf(value)))];
  if (selections.length === 0) {
    notes.reject(
      "selections",
      detection.line,
      "detection has no selection; add selection: with its fields",
    );
  } else if (selections.length > 1) {
    notes.reject(
      "selections",
      selections[1].line,
      `a rule has one selection; this one has ${selections.length} (${quote(names.join(", "))})`,
    );
  }
  const split = condition === undefined ? undefined : splitOf(condition, selections);
  return {
    ...(selections.length === 1 && { selection: names[0], ...(fields[0] && { fields: fields[0] }) }),
    fieldNames,
    ...(split && { split }),
  };
}

/** Reads the condition's text; a condition other than a selection name is reported to `notes`. */
function conditionOf(map: MapNode, line: number, names: string[], notes: Notes): string | undefined {
  const entry = entryOf(map, "condition");
  if (!entry) {
    notes.reject("condition", line, `condition is missing; add condition: ${names[0] ?? "selection"}`);
    return undefined;
  }
  if (entry.value.kind === "list") {
    notes.reject(
      "condition-list",
      entry.line,
      "a list of conditions is not supported; write one rule for each condition",
    );
    const texts = entry.value.items.map(scalar);
    return texts.every((text) => typeof text === "string")
      ? texts.map((text) => `(${text})`).join(" or ")
      : undefined;
  }
  const value = scalar(entry.value);
  if (typeof value !== "string") {
    notes.reject("condition", entry.line, "condition must be the name of the selection");
    return undefined;
  }
  const text = value.trim();
  if (names.includes(text)) return text;
  const constructs = constructsOf(text);
  for (const construct of constructs) {
    notes.reject(construct, entry.line, `condition ${quote(text)}: ${INSTEAD[construct]}`);
  }
  if (!constructs.length) {
    const near = nearest(text, names);
    const instead = names.length === 1 ? names[0] : near;
    notes.reject(
      "condition-selection",
      entry.line,
      `condition ${quote(text)} is not the name of a selection; ${
        instead ? `write condition: ${instead}` : "write the name of a selection"
      }`,
    );
  }
  return text;
}

const INSTEAD = {
  "condition-aggregation": "aggregations are not supported: detections evaluate one event at a time",
  "condition-not": "filters (not) are not supported; list the exact values to match",
  "condition-of": "quantifiers (1 of, all of) are not supported; write one rule for each selection",
  "condition-or": "OR-linked selections are not supported; write one rule for each selection",
  "condition-and": "AND-linked selections are not supported; put their fields in one selection",
};

function fieldNamesOf(node: TreeNode): string[] {
  if (node.kind === "list") return node.items.flatMap(fieldNamesOf);
  return node.kind === "map" ? node.entries.map(({ key }) => key.split("|")[0]).filter(Boolean) : [];
}
