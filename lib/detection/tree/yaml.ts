import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type Scalar,
} from "yaml";
import { DEPTH_MAX, type Entry, requireUnique, type ScalarNode, TreeError, type TreeNode } from "./tree.ts";

/**
 * Reads YAML 1.2 of the plain kind: maps with text keys, lists, scalars. Whatever means something else to another
 * reader is refused: anchors and aliases, tags, directives, keys that stand twice.
 *
 * @returns the documents of the text, of which there may be none
 * @throws {TreeError}
 */
export function parseYamlAll(text: string): TreeNode[] {
  const lines = new LineCounter();
  // Whether keys are unique is our own check: the library's compares every key with every other.
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false });
  if (!Array.isArray(documents)) return [];
  return (documents as Document.Parsed[]).map((document) => new Reader(lines, text).document(document));
}

/**
 * Reads YAML that is one document.
 *
 * @throws {TreeError}
 */
export function parseYaml(text: string): TreeNode {
  const documents = parseYamlAll(text);
  if (documents.length === 0) throw new TreeError("empty", 1, "the text is empty");
  if (documents.length > 1) {
    throw new TreeError(
      "multi-document",
      documents[1].line,
      "a second YAML document begins here; write one document, or a list in it",
    );
  }
  return documents[0];
}

class Reader {
  constructor(readonly lines: LineCounter, readonly text: string) {}

  document(document: Document.Parsed): TreeNode {
    const [error] = document.errors;
    if (error) throw this.#syntax(error);
    const { yaml, tags } = document.directives;
    if (yaml.explicit || Object.keys(tags).length !== 1 || tags["!!"] !== "tag:yaml.org,2002:") {
      throw new TreeError("directive", 1, "a YAML directive (%…) changes what the text means; remove it");
    }
    if (!document.contents) {
      throw new TreeError("empty", this.#line(document.range[0]), "the document is empty");
    }
    return this.node(document.contents, 0);
  }

  node(node: Node, depth: number): TreeNode {
    const line = this.#line(node.range?.[0] ?? 0);
    if (depth > DEPTH_MAX) throw new TreeError("nesting", line, `nested deeper than ${DEPTH_MAX} levels`);
    if (isAlias(node)) {
      throw new TreeError(
        "alias",
        line,
        `*${node.source} is an alias of a value elsewhere; write the value, in quotes if it begins with *`,
      );
    }
    if (node.tag) {
      throw new TreeError("tag", line, `the tag ${tagText(node.tag)} has no meaning here; remove it`);
    }
    if ((node as { anchor?: string }).anchor) {
      throw new TreeError(
        "alias",
        line,
        "an anchor (&…) has no meaning here; write the value where it is used",
      );
    }
    if (isScalar(node)) return this.#scalar(node, line);
    if (isSeq(node)) {
      return { kind: "list", line, items: node.items.map((item) => this.node(item as Node, depth + 1)) };
    }
    if (!isMap(node)) throw new TreeError("syntax", line, "not a value that YAML has");
    const entries = node.items.map(({ key, value }): Entry => {
      const at = this.#line((key as Node | null)?.range?.[0] ?? node.range?.[0] ?? 0);
      if (!isScalar(key) || key.tag || key.anchor) throw new TreeError("key", at, "a key is plain text");
      if (typeof key.value !== "string") {
        throw new TreeError("key", at, `the key ${key.source} is no text; write it in quotes`);
      }
      const below: TreeNode = value === null
        ? { kind: "scalar", line: at, value: null }
        : this.node(value as Node, depth + 1);
      return { key: key.value, line: at, value: below };
    });
    requireUnique(entries);
    return { kind: "map", line, entries };
  }

  #scalar({ type, value, source }: Scalar, line: number): ScalarNode {
    const scalar: ScalarNode = { kind: "scalar", line, value: value as ScalarNode["value"] };
    if (type === "PLAIN") scalar.plain = source;
    // The text of `|` begins on the line after it; all other styles fold lines.
    if (type === "BLOCK_LITERAL") scalar.textLine = line + 1;
    return scalar;
  }

  #syntax({ code, message, pos }: { code: string; message: string; pos: [number, number] }): TreeError {
    const line = this.#line(pos[0]);
    if (code === "TAB_AS_INDENT") {
      return new TreeError("tab", line, "a tab indents this line; YAML indents with spaces only");
    }
    if (code === "RESOURCE_EXHAUSTION") return new TreeError("nesting", line, "nested too deep");
    if (code === "BAD_ALIAS") return new TreeError("alias", line, "an alias (*…) without a name");
    return new TreeError("syntax", line, `not YAML: ${message.split("\n")[0]}`);
  }

  #line(offset: number): number {
    return Math.max(1, this.lines.linePos(offset).line);
  }
}

function tagText(tag: string): string {
  return tag.startsWith("tag:yaml.org,2002:") ? `!!${tag.slice(18)}` : tag;
}
