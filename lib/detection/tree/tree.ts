/** A text document as a tree that knows the line of each of its parts; made from YAML or JSON. */

/** Deepest nesting of a document; a pack needs seven levels. */
export const DEPTH_MAX = 64;

/** One key of a map with its value. */
export interface Entry {
  key: string;
  /** 1-based, of the key */
  line: number;
  value: TreeNode;
}

/** `{a: 1}` */
export interface MapNode {
  kind: "map";
  line: number;
  entries: Entry[];
}

/** `[1, 2]` */
export interface ListNode {
  kind: "list";
  line: number;
  items: TreeNode[];
}

/** Text, a number, true, false or null. */
export interface ScalarNode {
  kind: "scalar";
  line: number;
  value: string | number | boolean | null;
  /** as it is written, when it stands there without quotes: YAML guesses the type of such a value */
  plain?: string;
  /** line of the document on which the first line of the text stands, when its lines are lines of the document */
  textLine?: number;
}

export type TreeNode = MapNode | ListNode | ScalarNode;

/** A document that cannot be read: what is wrong, and where. */
export class TreeError extends Error {
  override name = "TreeError";

  /**
   * @param code stable word for the construct, `duplicate-key`
   * @param line 1-based
   */
  constructor(readonly code: TreeErrorCode, readonly line: number, message: string) {
    super(message);
  }
}

/** What keeps a document from being read. */
export type TreeErrorCode =
  | "syntax"
  | "duplicate-key"
  | "tab"
  | "tag"
  | "alias"
  | "directive"
  | "multi-document"
  | "key"
  | "nesting"
  | "empty";

/** The entry of a map by its key. */
export function entryOf(node: TreeNode | undefined, key: string): Entry | undefined {
  return node?.kind === "map" ? node.entries.find((entry) => entry.key === key) : undefined;
}

/** The value of a scalar; undefined for a map, a list and nothing. */
export function scalarOf(node: TreeNode | undefined): ScalarNode["value"] | undefined {
  return node?.kind === "scalar" ? node.value : undefined;
}

/** The tree as plain data. A key may be `__proto__`: it stays a key. */
export function valueOf(node: TreeNode): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(valueOf);
  return Object.fromEntries(node.entries.map(({ key, value }) => [key, valueOf(value)]));
}

/** What stands at a path, as far as the path leads; `exact` says whether all the way, `line` is that of the last key. */
export function walk(
  root: TreeNode,
  path: readonly PropertyKey[],
): { node: TreeNode; line: number; exact: boolean } {
  let [node, line] = [root, root.line];
  for (const segment of path) {
    if (node.kind === "map") {
      const entry = entryOf(node, String(segment));
      if (!entry) return { node, line, exact: false };
      [node, line] = [entry.value, entry.line];
    } else if (node.kind === "list" && node.items[Number(segment)]) {
      node = node.items[Number(segment)];
      line = node.line;
    } else return { node, line, exact: false };
  }
  return { node, line, exact: true };
}

/** Refuses a map in which a key stands twice. @throws {TreeError} */
export function requireUnique(entries: readonly Entry[]): void {
  const lines = new Map<string, number>();
  for (const { key, line } of entries) {
    const first = lines.get(key);
    if (first !== undefined) {
      throw new TreeError(
        "duplicate-key",
        line,
        `the key "${key}" stands here twice, first on line ${first}`,
      );
    }
    lines.set(key, line);
  }
}
