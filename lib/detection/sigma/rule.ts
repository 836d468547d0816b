/** One Sigma rule, as far as sbx takes it (spec.md, "Supported Sigma subset"); the rest is refused with its place. */
import { nearest } from "../../event/mod.ts";
import { type Severity, TAG_MAX, TAGS_MAX, TITLE_MAX, UUID } from "../ir.ts";
import { entryOf, type MapNode, scalarOf as scalar, type TreeNode } from "../tree/mod.ts";
import { detectionOf } from "./detection.ts";
import { type Logsource, logsourceOf } from "./logsource.ts";
import { type Notes, shown } from "./notes.ts";
import type { SigmaField } from "./selection.ts";
import type { Split } from "./split.ts";

/** A rule of which every construct is supported; its fields have still to be mapped. */
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

/** What came of reading a rule. */
export interface SigmaRead {
  /** absent when something is refused */
  rule?: SigmaRule;
  title?: string;
  logsource: Logsource;
  /** fields by name, without modifiers; also those of a rule that is refused */
  fieldNames: string[];
  /** the rules that this one could be written as, when that finds the same events */
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

/** Keys with a meaning of ours, and those of Sigma that only tell people something. */
const READ = ["title", "id", "status", "level", "tags", "logsource", "detection", "taxonomy"];
const TOLD = [
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
/** Keys that make something else of a rule. */
const OTHER = new Map(Object.entries(
  {
    correlation: [
      "correlation",
      "correlations count or order events; detections look at one event at a time",
    ],
    filter: ["filter", "filters change other rules; write the rule without what it filters"],
    action: ["collection", "rule collections (action) are not supported; write each rule out"],
    scope: ["unknown-key", "scope would leave out hosts, which sbx cannot; remove it"],
  } as const,
));

/** Reads the rule that a map is. What is wrong with it goes to `notes`, all of it. */
export function readRule(root: TreeNode, notes: Notes): SigmaRead {
  if (root.kind !== "map") {
    notes.refuse("not-a-rule", root.line, "a Sigma rule is a map with title, logsource and detection");
    return { logsource: {}, fieldNames: [] };
  }
  const before = notes.problems.filter(({ severity }) => severity === "error").length;
  refuseKeys(root, notes);
  const title = titleOf(root, notes);
  const id = idOf(root, notes);
  refuseStatus(root, notes);
  const severity = severityOf(root, notes);
  const tags = tagsOf(root, notes);
  // A correlation or a filter has neither.
  if (entryOf(root, "correlation") || entryOf(root, "filter")) return { logsource: {}, fieldNames: [] };
  const logsource = logsourceOf(entryOf(root, "logsource")?.value, root.line, notes);
  const { selection, fields, fieldNames, split } = detectionOf(root, notes);
  const errors = notes.problems.filter(({ severity }) => severity === "error").length;
  const read: SigmaRead = { ...(title && { title }), logsource, fieldNames, ...(split && { split }) };
  if (errors > before || !title || !fields || selection === undefined) return read;
  return {
    ...read,
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

function refuseKeys(root: MapNode, notes: Notes): void {
  for (const { key, line } of root.entries) {
    if (READ.includes(key) || TOLD.includes(key)) continue;
    const other = OTHER.get(key);
    if (other) notes.refuse(other[0], line, other[1]);
    else {
      const near = nearest(key, [...READ, ...TOLD]);
      notes.refuse(
        "unknown-key",
        line,
        `the key ${shown(key)} is not supported; ${near ? `did you mean ${near}?` : "remove it"}`,
      );
    }
  }
  const taxonomy = entryOf(root, "taxonomy");
  if (taxonomy && scalar(taxonomy.value) !== "sigma") {
    notes.refuse(
      "taxonomy",
      taxonomy.line,
      "a taxonomy of its own gives fields other meanings; remove it and map them",
    );
  }
}

function titleOf(root: MapNode, notes: Notes): string | undefined {
  const entry = entryOf(root, "title");
  const title = scalar(entry?.value);
  if (typeof title === "string" && title.trim() && title.length <= TITLE_MAX) return title;
  notes.refuse("title", entry?.line ?? root.line, `title must be text of 1 to ${TITLE_MAX} characters`);
}

function idOf(root: MapNode, notes: Notes): string | undefined {
  const entry = entryOf(root, "id");
  if (!entry) return undefined;
  const id = scalar(entry.value);
  if (typeof id === "string" && UUID.test(id)) return id.toLowerCase();
  notes.refuse("id", entry.line, "id must be a UUID; write one, or leave it out");
}

function refuseStatus(root: MapNode, notes: Notes): void {
  const entry = entryOf(root, "status");
  if (!entry) return;
  const status = scalar(entry.value);
  if (!STATUSES.includes(status as string)) {
    notes.refuse("status", entry.line, `status must be one of ${STATUSES.join(", ")}`);
  } else if (status === "unsupported") {
    notes.refuse(
      "status",
      entry.line,
      "the rule says of itself that it is unsupported; it cannot be used as it is",
    );
  } else if (status === "deprecated") {
    notes.warn("status", entry.line, "the rule says of itself that it is deprecated");
  }
}

function severityOf(root: MapNode, notes: Notes): Severity | undefined {
  const entry = entryOf(root, "level");
  if (!entry) return undefined;
  const severity = LEVELS.get(scalar(entry.value));
  if (!severity) notes.refuse("level", entry.line, `level must be one of ${[...LEVELS.keys()].join(", ")}`);
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
  notes.refuse(
    "tags",
    entry.line,
    `tags must be a list of up to ${TAGS_MAX} texts of 1 to ${TAG_MAX} characters`,
  );
  return [];
}
