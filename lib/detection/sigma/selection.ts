import type { TreeNode } from "../tree/mod.ts";
import { type Notes, quote } from "./notes.ts";
import { type Literal, literalsOf } from "./value.ts";

/** Field of a selection with its OR-linked values. */
export interface SigmaField {
  name: string;
  line: number;
  values: Literal[];
}

/** Replacement advice for each modifier. */
const MODIFIERS: ReadonlyMap<string, string> = new Map(Object.entries({
  contains: "list the exact values",
  startswith: "list the exact values",
  endswith: "list the exact values",
  all: "write one rule for each combination of exact values",
  re: "list the exact values",
  cased: "remove it: values are always compared case-sensitively",
  exists: "remove the field: a field with values always exists",
  expand: "list the values of the placeholder",
  cidr: "list the exact addresses",
  lt: "list the exact numbers",
  lte: "list the exact numbers",
  gt: "list the exact numbers",
  gte: "list the exact numbers",
  base64: "write the encoded value",
  base64offset: "write the encoded values",
  wide: "write the encoded value",
  utf16: "write the encoded value",
  utf16le: "write the encoded value",
  utf16be: "write the encoded value",
  windash: "list both spellings",
  fieldref: "compare with exact values",
}));

/**
 * Reads the AND-linked fields of a selection. All problems of all fields are reported to `notes`.
 *
 * @returns `undefined` if the node is not a map of fields to exact values
 */
export function fieldsOf(name: string, node: TreeNode, notes: Notes): SigmaField[] | undefined {
  if (node.kind === "scalar") {
    notes.reject(
      "selection-keywords",
      node.line,
      `${name}: a keyword without a field is not supported; write field: value`,
    );
    return undefined;
  }
  if (node.kind === "list") {
    if (node.items.some(({ kind }) => kind === "map")) {
      const line = node.items[1]?.line ?? node.line;
      notes.reject(
        "selection-list",
        line,
        `${name}: a list of maps is not supported; write one rule for each map`,
      );
    } else {
      notes.reject(
        "selection-keywords",
        node.line,
        `${name}: a list of keywords is not supported; write field: value`,
      );
    }
    return undefined;
  }
  if (!node.entries.length) {
    notes.reject(
      "selection-empty",
      node.line,
      `${name}: a selection without fields would match everything; add a field`,
    );
    return undefined;
  }
  const seen = new Map<string, string>();
  const fields = node.entries.map(({ key, line, value }): SigmaField | undefined => {
    const [field, ...modifiers] = key.split("|");
    if (modifiers.length) rejectModifiers(key, modifiers, line, notes);
    const duplicate = modifiers.length ? undefined : seen.get(field.toLowerCase());
    if (duplicate !== undefined) {
      notes.reject(
        "field-case",
        line,
        `${field} and ${duplicate} differ only in case; remove one`,
      );
    } else if (!modifiers.length) seen.set(field.toLowerCase(), field);
    if (!field) {
      notes.reject(
        "selection-keywords",
        line,
        `${quote(key)}: a value without a field is not supported; write field: value`,
      );
    }
    const values = literalsOf(field, value, notes);
    return values && field && !modifiers.length ? { name: field, line, values } : undefined;
  });
  return fields.every((field) => field !== undefined) ? fields : undefined;
}

function rejectModifiers(key: string, modifiers: string[], line: number, notes: Notes): void {
  for (const modifier of modifiers) {
    const instead = MODIFIERS.get(modifier.toLowerCase()) ?? "write field: exact values";
    notes.reject(
      "field-modifier",
      line,
      `${key}: the modifier ${quote(modifier)} is not supported; ${instead}`,
    );
  }
}
