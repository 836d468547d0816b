/**
 * Reader of Sigma rules (docs/design/contracts/06-detection.md §6). Constructs outside the supported subset
 * are errors with a location.
 */
import { nearest, suggestion } from "../../base/text/mod.ts";
import { type DetectionFamily, type Severity, TAG_MAX, TAGS_MAX, TITLE_MAX, UUID } from "../ir/ir.ts";
import {
  entryOf,
  type MapNode,
  parseYaml,
  parseYamlAll,
  scalarOf as scalar,
  TreeError,
  type TreeNode,
} from "../tree/mod.ts";
import { severityOf } from "../level.ts";
import { type Notes, quote } from "./notes.ts";
import { constructsOf, fieldsOf, type SigmaField, type Split, splitOf } from "./condition.ts";
import { EVENT_FAMILIES } from "../../event/mod.ts";

/** Rule with supported constructs only; its fields are not mapped yet. */
export interface SigmaRule {
  line: number;
  title: string;
  /** UUID in lower case */
  id?: string;
  severity?: Severity;
  tags: string[];
  logsource: Logsource;
  /** name of the one selection */
  selection: string;
  fields: SigmaField[];
}

/** Result of reading a rule. */
export interface SigmaReadResult {
  /** absent if the rule has an error */
  rule?: SigmaRule;
  title?: string;
  logsource: Logsource;
  /** field names without modifiers, also for a rejected rule */
  fieldNames: string[];
  /** equivalent split into supported rules, if there is one */
  split?: Split;
}

const STATUSES = ["stable", "test", "experimental", "deprecated", "unsupported"];

/** Keys that sbx evaluates, and informational keys that it ignores. */
const EVALUATED_KEYS = ["title", "id", "status", "level", "tags", "logsource", "detection", "taxonomy"];
const INFORMATIONAL_KEYS = [
  "name",
  "description",
  "author",
  "references",
  "date",
  "modified",
  "license",
  "falsepositives",
  "related",
  "fields",
];
/** Unsupported keys with their reason code and message. */
const UNSUPPORTED_KEYS = new Map(Object.entries(
  {
    correlation: [
      "correlation",
      "correlations are not supported: detections evaluate one event at a time",
    ],
    filter: ["filter", "filters are not supported; change the rule that the filter applies to"],
    action: ["collection", "rule collections (action) are not supported; write each rule in full"],
    scope: ["unknown-key", "scope is not supported: sbx cannot exclude hosts; remove it"],
  } as const,
));

/** Reads one rule and reports all its problems to `notes`. */
export function readRule(root: TreeNode, notes: Notes): SigmaReadResult {
  if (root.kind !== "map") {
    notes.reject("not-a-rule", root.line, "a Sigma rule is a map with title, logsource and detection");
    return { logsource: {}, fieldNames: [] };
  }
  const before = notes.problems.filter(({ severity }) => severity === "error").length;
  checkKeys(root, notes);
  const title = titleOf(root, notes);
  const id = idOf(root, notes);
  checkStatus(root, notes);
  const severity = severityOf(root, notes);
  const tags = tagsOf(root, notes);
  // A correlation or filter has neither logsource nor detection.
  if (entryOf(root, "correlation") || entryOf(root, "filter")) return { logsource: {}, fieldNames: [] };
  const logsource = logsourceOf(entryOf(root, "logsource")?.value, root.line, notes);
  const { selection, fields, fieldNames, split } = detectionOf(root, notes);
  const errors = notes.problems.filter(({ severity }) => severity === "error").length;
  const result: SigmaReadResult = { ...(title && { title }), logsource, fieldNames, ...(split && { split }) };
  if (errors > before || !title || !fields || selection === undefined) return result;
  return {
    ...result,
    rule: {
      line: root.line,
      title,
      ...(id !== undefined && { id }),
      ...(severity && { severity }),
      tags,
      logsource,
      selection,
      fields,
    },
  };
}

function checkKeys(root: MapNode, notes: Notes): void {
  for (const { key, line } of root.entries) {
    if (EVALUATED_KEYS.includes(key) || INFORMATIONAL_KEYS.includes(key)) continue;
    const unsupported = UNSUPPORTED_KEYS.get(key);
    if (unsupported) notes.reject(unsupported[0], line, unsupported[1]);
    else {
      const near = nearest(key, [...EVALUATED_KEYS, ...INFORMATIONAL_KEYS]);
      notes.reject(
        "unknown-key",
        line,
        `the key ${quote(key)} is not supported; ${near ? suggestion(near) : "remove it"}`,
      );
    }
  }
  const taxonomy = entryOf(root, "taxonomy");
  if (taxonomy && scalar(taxonomy.value) !== "sigma") {
    notes.reject(
      "taxonomy",
      taxonomy.line,
      "taxonomies other than sigma are not supported; remove it and map the fields",
    );
  }
}

function titleOf(root: MapNode, notes: Notes): string | undefined {
  const entry = entryOf(root, "title");
  const title = scalar(entry?.value);
  if (typeof title === "string" && title.trim() && title.length <= TITLE_MAX) return title;
  notes.reject("title", entry?.line ?? root.line, `title must be a string of 1 to ${TITLE_MAX} characters`);
}

function idOf(root: MapNode, notes: Notes): string | undefined {
  const entry = entryOf(root, "id");
  if (!entry) return undefined;
  const id = scalar(entry.value);
  if (typeof id === "string" && UUID.test(id)) return id.toLowerCase();
  notes.reject("id", entry.line, "id must be a UUID; correct or remove it");
}

function checkStatus(root: MapNode, notes: Notes): void {
  const entry = entryOf(root, "status");
  if (!entry) return;
  const status = scalar(entry.value);
  if (!STATUSES.includes(status as string)) {
    notes.reject("status", entry.line, `status must be one of ${STATUSES.join(", ")}`);
  } else if (status === "unsupported") {
    notes.reject(
      "status",
      entry.line,
      "the rule has status unsupported; use another rule",
    );
  } else if (status === "deprecated") {
    notes.warn("status", entry.line, "the rule has status deprecated");
  }
}

function tagsOf(root: MapNode, notes: Notes): string[] {
  const entry = entryOf(root, "tags");
  if (!entry) return [];
  const tags = entry.value.kind === "list" ? entry.value.items.map(scalar) : [undefined];
  if (
    tags.length <= TAGS_MAX &&
    tags.every((tag) => typeof tag === "string" && tag !== "" && tag.length <= TAG_MAX)
  ) {
    return tags as string[];
  }
  notes.reject(
    "tags",
    entry.line,
    `tags must be a list of up to ${TAGS_MAX} strings of 1 to ${TAG_MAX} characters`,
  );
  return [];
}

/** Reads the rules of a source: one map, or a list of maps. Problems are reported to `notes`. */
export function readSigma(text: string, notes: Notes): SigmaReadResult[] {
  return parseOrReject(notes, () => {
    const root = parseYaml(text);
    return root.kind === "list" ? root.items : [root];
  }).map((node) => readRule(node, notes));
}

/**
 * Parses a foreign file, which may contain several YAML documents.
 *
 * @returns the tree of each rule
 */
export function readSigmaDocuments(text: string, notes: Notes): TreeNode[] {
  return parseOrReject(
    notes,
    () => parseYamlAll(text).flatMap((root) => root.kind === "list" ? root.items : [root]),
  );
}

function parseOrReject(notes: Notes, parse: () => TreeNode[]): TreeNode[] {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof TreeError)) throw error;
    notes.reject(error.code, error.line, error.messageIn((line) => notes.placeOf(line).line));
    return [];
  }
}

/** Supported part of a rule's `detection`. */
interface Detection {
  selection?: string;
  fields?: SigmaField[];
  fieldNames: string[];
  split?: Split;
}

/**
 * Reads selections and condition; constructs beyond one selection of exact values are reported to `notes`.
 */
function detectionOf(root: MapNode, notes: Notes): Detection {
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

/** Nearest event family of each category in Sigma's taxonomy; the fields still need a mapping. */
export const FOREIGN_CATEGORIES: ReadonlyMap<string, DetectionFamily> = new Map(Object.entries({
  process_creation: "process",
  process_termination: "process",
  dns: "dns",
  dns_query: "dns",
  proxy: "http",
  webserver: "http",
  network_connection: "http",
  file_event: "file",
  file_access: "file",
  file_change: "file",
  file_delete: "file",
  file_rename: "file",
}));

/** Product and category of a rule. */
interface Logsource {
  product?: string;
  category?: string;
  /** set if product and category are supported */
  family?: DetectionFamily;
}

/** Reads the logsource: `product: sbx` and a family as category; anything else is reported to `notes`. */
function logsourceOf(node: TreeNode | undefined, line: number, notes: Notes): Logsource {
  if (node?.kind !== "map") {
    notes.reject(
      "logsource",
      node?.line ?? line,
      `logsource is missing; add one with product: sbx and a category`,
    );
    return {};
  }
  for (const { key, line } of node.entries) {
    if (key === "product" || key === "category") continue;
    const code = key === "service" ? "logsource-service" : "unknown-key";
    notes.reject(code, line, `logsource.${key} is not supported; remove it`);
  }
  const product = textOf(entryOf(node, "product")?.value);
  const category = textOf(entryOf(node, "category")?.value);
  const lineOf = (key: string) => entryOf(node, key)?.line ?? node.line;
  if (product !== "sbx") {
    notes.reject(
      "logsource-product",
      lineOf("product"),
      product === undefined
        ? "logsource.product is missing; add product: sbx"
        : `logsource.product ${quote(product)} is not supported; ` +
          "write product: sbx and map its fields in field_mapping",
    );
  }
  const family = EVENT_FAMILIES.find((family) => family === category);
  if (!family) notes.reject("logsource-category", lineOf("category"), describeCategoryFault(category));
  return {
    ...(product !== undefined && { product }),
    ...(category !== undefined && { category }),
    ...(family && product === "sbx" && { family }),
  };
}

function describeCategoryFault(category: string | undefined): string {
  const families = EVENT_FAMILIES.join(", ");
  if (category === undefined) return `logsource.category is missing; add one of ${families}`;
  const near = FOREIGN_CATEGORIES.get(category) ?? nearest(category, EVENT_FAMILIES);
  return `logsource.category ${quote(category)} is not an event family; ${
    near ? suggestion(near) : `write one of ${families}`
  }`;
}

function textOf(node: TreeNode | undefined): string | undefined {
  return node?.kind === "scalar" && node.value !== null ? String(node.value) : undefined;
}
