/** Tree of a YAML or JSON document, with the line of each node. */

/** Maximum nesting of a document; a pack needs seven levels. */
export const DEPTH_MAX = 64;

/** Key of a map with its value. */
export interface Entry {
  key: string;
  /** line of the key, 1-based */
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

/** String, number, boolean or null. */
export interface ScalarNode {
  kind: "scalar";
  line: number;
  value: string | number | boolean | null;
  /** source text of an unquoted value, whose type YAML infers */
  plain?: string;
  /** document line of the text's first line, for styles that keep line breaks */
  textLine?: number;
}

export type TreeNode = MapNode | ListNode | ScalarNode;

/** Parse error with its line. */
export class TreeError extends Error {
  override name = "TreeError";

  /**
   * @param code stable identifier of the construct, such as `duplicate-key`
   * @param line 1-based, in the text that was parsed
   * @param first line of the first of two equal keys
   */
  constructor(readonly code: TreeErrorCode, readonly line: number, message: string, readonly first?: number) {
    super(message);
  }

  /**
   * The message with every line as the file counts it: the text may be part of one.
   *
   * @param lineOf line of the file, for a line of the text
   */
  messageIn(lineOf: (line: number) => number | undefined = (line) => line): string {
    const first = this.first === undefined ? undefined : lineOf(this.first);
    // In a folded text all lines are that of its key, which says nothing.
    return first === undefined || first === lineOf(this.line)
      ? this.message
      : `${this.message}, first on line ${first}`;
  }
}

/** Constructs that make a document invalid. */
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

/** Finds the entry of a map by its key. */
export function entryOf(node: TreeNode | undefined, key: string): Entry | undefined {
  return node?.kind === "map" ? node.entries.find((entry) => entry.key === key) : undefined;
}

/** Value of a scalar; `undefined` for a map, a list or a missing node. */
export function scalarOf(node: TreeNode | undefined): ScalarNode["value"] | undefined {
  return node?.kind === "scalar" ? node.value : undefined;
}

/** Converts the tree to plain data; a key `__proto__` becomes an ordinary property. */
export function valueOf(node: TreeNode): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(valueOf);
  return Object.fromEntries(node.entries.map(({ key, value }) => [key, valueOf(value)]));
}

/**
 * Finds the node at a path, or its nearest ancestor (`exact` is false then); `line`
 * is that of the last key found.
 */
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

/** @throws {TreeError} `duplicate-key`: two entries have the same key */
export function requireUniqueKeys(entries: readonly Entry[]): void {
  const lines = new Map<string, number>();
  for (const { key, line } of entries) {
    const first = lines.get(key);
    if (first !== undefined) {
      throw new TreeError("duplicate-key", line, `duplicate key "${key}"`, first);
    }
    lines.set(key, line);
  }
}
