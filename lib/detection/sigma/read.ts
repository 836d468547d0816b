import { parseYaml, parseYamlAll, TreeError, type TreeNode } from "../tree/mod.ts";
import type { Notes } from "./notes.ts";
import { readRule, type SigmaReadResult } from "./rule.ts";

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
