import { SbxError } from "../../base/error/mod.ts";
import { parseToml, type TomlDocument } from "../../base/toml/mod.ts";
import type { Problem } from "../problem.ts";
import { parseJson, parseYaml, TreeError, type TreeNode, valueOf, walk } from "../tree/mod.ts";

export type PackFormat = "yaml" | "toml" | "json";

/** Location in a file; data without a file has no lines. */
export interface Place {
  file?: string;
  /** 1-based */
  line?: number;
}

/** Parsed document of a pack, not validated. */
export interface PackDocument {
  value: unknown;
  /** location of the value at a path, or of its nearest ancestor */
  placeOf(path: readonly PropertyKey[]): Place;
  /** location of a line within the string at a path, such as a Sigma rule inside the pack */
  textPlaceOf(path: readonly PropertyKey[], line: number): Place;
}

/** Format by file extension; YAML by default. */
export function formatOf(path: string): PackFormat {
  if (/\.toml$/i.test(path)) return "toml";
  return /\.json$/i.test(path) ? "json" : "yaml";
}

/** Document of a pack given as data, such as a request body. */
export function documentOf(value: unknown, name?: string): PackDocument {
  const place = (): Place => name === undefined ? {} : { file: name };
  return { value, placeOf: place, textPlaceOf: place };
}

/**
 * Parses the text of a pack.
 *
 * @param file file name for messages
 * @param lineOf line of the file for a line of the text, where the text is part of a file
 * @returns the document, or the syntax error
 */
export function parseDocument(
  text: string,
  file: string,
  format = formatOf(file),
  lineOf?: (line: number) => number | undefined,
): PackDocument | Problem {
  if (format === "toml") return tomlDocument(text, file);
  let root: TreeNode;
  try {
    root = format === "json" ? parseJson(text) : parseYaml(text);
  } catch (error) {
    if (!(error instanceof TreeError)) throw error;
    const { code, line } = error;
    const message = error.messageIn(lineOf);
    return { code, severity: "error", path: [], file, line, message };
  }
  return treeDocument(root, file);
}

function treeDocument(root: TreeNode, file: string): PackDocument {
  return {
    value: valueOf(root),
    placeOf: (path) => ({ file, line: walk(root, path).line }),
    textPlaceOf(path, line) {
      const { node, line: above } = walk(root, path);
      const first = node.kind === "scalar" ? node.textLine : undefined;
      return { file, line: first === undefined ? above : first + line - 1 };
    },
  };
}

function tomlDocument(text: string, file: string): PackDocument | Problem {
  let document: TomlDocument;
  try {
    document = parseToml(text, file);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    // `file:line:column: message`
    const [, line, message] = /:(\d+):\d+: ([\s\S]*)$/.exec(error.message) ?? [undefined, "1", error.message];
    return { code: "syntax", severity: "error", path: [], file, line: Number(line), message };
  }
  return {
    value: document.value,
    placeOf: (path) => ({ file, line: document.positionOf(path).line }),
    textPlaceOf(path, line) {
      const key = document.find(path);
      if (!key) return { file, line: document.positionOf(path).line };
      const opening = /^("""|''')(\r?\n)?/.exec(document.text.slice(key.valueStart, key.valueStart + 5));
      // A line break right after the opening quotes is not part of the string.
      return { file, line: opening ? key.line + (opening[2] ? line : line - 1) : key.line };
    },
  };
}
