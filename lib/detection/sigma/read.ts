import { parseYaml, parseYamlAll, TreeError, type TreeNode } from "../tree/mod.ts";
import type { Notes } from "./notes.ts";
import { readRule, type SigmaRead } from "./rule.ts";

/** The rules of a source: one map, or a list of them. What is wrong goes to `notes`. */
export function readSigma(text: string, notes: Notes): SigmaRead[] {
  return reading(notes, () => {
    const root = parseYaml(text);
    return root.kind === "list" ? root.items : [root];
  }).map((node) => readRule(node, notes));
}

/**
 * The rules of a foreign file, which may hold several documents.
 *
 * @returns the tree of each rule, to be read with notes of its own
 */
export function sigmaDocuments(text: string, notes: Notes): TreeNode[] {
  return reading(
    notes,
    () => parseYamlAll(text).flatMap((root) => root.kind === "list" ? root.items : [root]),
  );
}

function reading(notes: Notes, read: () => TreeNode[]): TreeNode[] {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof TreeError)) throw error;
    notes.refuse(error.code, error.line, error.message);
    return [];
  }
}
