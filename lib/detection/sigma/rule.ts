/**
 * Reader of Sigma rules (docs/design/contracts/06-detection.md §6). Constructs outside the supported subset
 * are errors with a location.
 */
import { nearest } from "../../base/text/mod.ts";
import { type Severity, TAG_MAX, TAGS_MAX, TITLE_MAX, UUID } from "../ir/ir.ts";
import {
  entryOf,
  type MapNode,
  parseYaml,
  parseYamlAll,
  scalarOf as scalar,
  TreeError,
  type TreeNode,
} from "../tree/mod.ts";
import { detectionOf } from "./detection.ts";
import { type Logsource, logsourceOf } from "./logsource.ts";
import { type Notes, quote } from "./notes.ts";
import type { SigmaField } from "./selection.ts";
import type { Split } from "./split.ts";

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

const LEVELS: ReadonlyMap<unknown, Severity> = new Map<string, Severity>([
  ["informational", "info"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["critical", "critical"],
]);
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
        `the key ${quote(key)} is not supported; ${near ? `did you mean ${near}?` : "remove it"}`,
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

function severityOf(root: MapNode, notes: Notes): Severity | undefined {
  const entry = entryOf(root, "level");
  if (!entry) return undefined;
  const severity = LEVELS.get(scalar(entry.value));
  if (!severity) notes.reject("level", entry.line, `level must be one of ${[...LEVELS.keys()].join(", ")}`);
  return severity;
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
