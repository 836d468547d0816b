/** Splits a Sigma file into documents (rules, correlations, filters), and reads their metadata. */
import { type Confidence, type Severity, TAG_MAX, TAGS_MAX, TITLE_MAX, UUID } from "../ir/ir.ts";
import {
  entryOf,
  type MapNode,
  parseYamlAll,
  scalarOf as scalar,
  TreeError,
  type TreeNode,
} from "../tree/mod.ts";
import { severityOf } from "../level.ts";
import { RuleNotes } from "./notes.ts";

/** Text of a file with rules. */
export interface RuleFile {
  path: string;
  text: string;
}

export type DocumentKind = "rule" | "correlation" | "filter";

/** A document of a file, before its detection is read. */
export interface RuleDocument {
  path: string;
  line: number;
  kind: DocumentKind;
  /** absent: the document is no map, or the file cannot be parsed */
  root?: MapNode;
  notes: RuleNotes;
  title?: string;
  /** UUID in lower case */
  sigma_id?: string;
  /** name by which correlations and filters refer to it */
  name?: string;
  severity?: Severity;
  confidence: Confidence;
  tags: string[];
}

/** Confidence by a rule's status, which says how well the rule was tested. */
const CONFIDENCE: ReadonlyMap<unknown, Confidence> = new Map<string, Confidence>([
  ["stable", "high"],
  ["test", "medium"],
  ["experimental", "low"],
  ["deprecated", "low"],
  ["unsupported", "low"],
]);

/** Reads the documents of a file. A file that cannot be parsed is one document with an error. */
export function readDocuments({ path, text }: RuleFile): RuleDocument[] {
  let nodes: TreeNode[];
  try {
    nodes = parseYamlAll(text);
  } catch (error) {
    if (!(error instanceof TreeError)) throw error;
    const document = emptyDocument(path, error.line);
    document.notes.reject(error.code, error.line, error.messageIn());
    return [document];
  }
  // A separator before the first or behind the last document makes an empty one.
  const documents = nodes.filter((node) => scalar(node) !== null).map((node) => readDocument(path, node));
  if (documents.length > 0) return documents;
  const document = emptyDocument(path, 1);
  document.notes.reject("empty", 1, "the file has no rule");
  return [document];
}

function emptyDocument(path: string, line: number): RuleDocument {
  return { path, line, kind: "rule", notes: new RuleNotes(), confidence: "medium", tags: [] };
}

function readDocument(path: string, node: TreeNode): RuleDocument {
  const document = emptyDocument(path, node.line);
  const { notes } = document;
  if (node.kind !== "map") {
    notes.reject("not-a-rule", node.line, "a Sigma rule is a map with title, logsource and detection");
    return document;
  }
  const has = (key: string) => entryOf(node, key) !== undefined;
  if (has("action")) {
    notes.reject(
      "collection",
      entryOf(node, "action")!.line,
      "rule collections (action) are not part of Sigma 2",
    );
  }
  const taxonomy = entryOf(node, "taxonomy");
  if (taxonomy && scalar(taxonomy.value) !== "sigma") {
    notes.reject("taxonomy", taxonomy.line, "the fields of other taxonomies than sigma are unknown");
  }
  const title = titleOf(node, notes);
  const sigma_id = idOf(node, notes);
  const name = scalar(entryOf(node, "name")?.value);
  const severity = severityOf(node, notes);
  return {
    ...document,
    kind: has("correlation") ? "correlation" : has("filter") ? "filter" : "rule",
    root: node,
    ...(title !== undefined && { title }),
    ...(sigma_id !== undefined && { sigma_id }),
    ...(typeof name === "string" && name !== "" && { name }),
    ...(severity && { severity }),
    confidence: confidenceOf(node, notes),
    tags: tagsOf(node, notes),
  };
}

function titleOf(root: MapNode, notes: RuleNotes): string | undefined {
  const entry = entryOf(root, "title");
  const title = scalar(entry?.value);
  const text = title === undefined || title === null ? "" : String(title);
  if (text.trim() && text.length <= TITLE_MAX) return text;
  notes.reject("title", entry?.line ?? root.line, `title must have 1 to ${TITLE_MAX} characters`);
}

function idOf(root: MapNode, notes: RuleNotes): string | undefined {
  const entry = entryOf(root, "id");
  if (!entry) return undefined;
  const id = scalar(entry.value);
  if (typeof id === "string" && UUID.test(id)) return id.toLowerCase();
  notes.warn("id", entry.line, "id is not a UUID, so that findings do not have it");
}

function confidenceOf(root: MapNode, notes: RuleNotes): Confidence {
  const entry = entryOf(root, "status");
  if (!entry) return "medium";
  const status = scalar(entry.value);
  const confidence = CONFIDENCE.get(status);
  if (!confidence) {
    notes.reject("status", entry.line, `status must be one of ${[...CONFIDENCE.keys()].join(", ")}`);
  } else if (status === "deprecated" || status === "unsupported") {
    notes.warn("status", entry.line, `the rule has status ${status}`);
  }
  return confidence ?? "medium";
}

function tagsOf(root: MapNode, notes: RuleNotes): string[] {
  const entry = entryOf(root, "tags");
  if (!entry) return [];
  const tags = (entry.value.kind === "list" ? entry.value.items : [entry.value]).map(scalar);
  const good = tags.filter((tag) =>
    typeof tag === "string" && tag !== "" && tag.length <= TAG_MAX
  ) as string[];
  if (good.length < tags.length || good.length > TAGS_MAX) {
    notes.warn("tags", entry.line, `of the tags, ${TAGS_MAX} texts of up to ${TAG_MAX} characters are kept`);
  }
  return [...new Set(good)].slice(0, TAGS_MAX);
}
