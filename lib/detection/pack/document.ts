import { SbxError } from "../../base/error/mod.ts";
import { parseToml, type TomlDocument } from "../../toml/mod.ts";
import type { Problem } from "../problem.ts";
import { parseJson, parseYaml, TreeError, type TreeNode, valueOf, walk } from "../tree/mod.ts";

export type PackFormat = "yaml" | "toml" | "json";

/** Where something stands; a document that came as data has no lines. */
export interface Place {
  file?: string;
  /** 1-based */
  line?: number;
}

/** A pack as it was written, before anything is known of what it says. */
export interface PackDocument {
  value: unknown;
  /** of the value at a path, or of the nearest thing around it */
  placeOf(path: readonly PropertyKey[]): Place;
  /** of a line of the text at a path: a Sigma rule stands within the pack */
  textPlaceOf(path: readonly PropertyKey[], line: number): Place;
}

/** What a file's name says of its format; YAML when it says nothing. */
export function formatOf(path: string): PackFormat {
  if (/\.toml$/i.test(path)) return "toml";
  return /\.json$/i.test(path) ? "json" : "yaml";
}

/** A pack that came as data, such as in the body of a request. */
export function documentOf(value: unknown, name?: string): PackDocument {
  const place = (): Place => name === undefined ? {} : { file: name };
  return { value, placeOf: place, textPlaceOf: place };
}

/**
 * Reads the text of a pack.
 *
 * @param file as messages name it
 * @returns the document, or why there is none
 */
export function parseDocument(text: string, file: string, format = formatOf(file)): PackDocument | Problem {
  if (format === "toml") return tomlDocument(text, file);
  let root: TreeNode;
  try {
    root = format === "json" ? parseJson(text) : parseYaml(text);
  } catch (error) {
    if (!(error instanceof TreeError)) throw error;
    const { code, line, message } = error;
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
    // `file:line:column: what`
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
      // A line break right after the opening quotes is no part of the text.
      return { file, line: opening ? key.line + (opening[2] ? line : line - 1) : key.line };
    },
  };
}
