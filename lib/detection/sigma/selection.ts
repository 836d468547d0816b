import type { TreeNode } from "../tree/mod.ts";
import { type Notes, shown } from "./notes.ts";
import { type Literal, literalsOf } from "./value.ts";

/** A field of a selection with its values: the field has one of them. */
export interface SigmaField {
  name: string;
  line: number;
  values: Literal[];
}

/** What to write instead of a modifier. */
const MODIFIERS: ReadonlyMap<string, string> = new Map(Object.entries({
  contains: "list the exact values",
  startswith: "list the exact values",
  endswith: "list the exact values",
  all: "write one rule for each combination of exact values",
  re: "list the exact values",
  cased: "leave it out: values are always compared with their case",
  exists: "leave the field out: a field with values is there",
  expand: "list the values that the placeholder stands for",
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
 * The fields of a selection, AND-linked; undefined when it is no map of fields to exact values, and `notes` say why.
 * Every field is looked at, so that all of what is wrong is said at once.
 */
export function fieldsOf(name: string, node: TreeNode, notes: Notes): SigmaField[] | undefined {
  if (node.kind === "scalar") {
    notes.refuse(
      "selection-keywords",
      node.line,
      `${name}: a keyword without a field is not supported; write field: value`,
    );
    return undefined;
  }
  if (node.kind === "list") {
    if (node.items.some(({ kind }) => kind === "map")) {
      const line = node.items[1]?.line ?? node.line;
      notes.refuse(
        "selection-list",
        line,
        `${name}: a list of maps is OR-linked; write one rule for each of its elements`,
      );
    } else {
      notes.refuse(
        "selection-keywords",
        node.line,
        `${name}: a list of keywords is not supported; write field: value`,
      );
    }
    return undefined;
  }
  if (!node.entries.length) {
    notes.refuse(
      "selection-empty",
      node.line,
      `${name}: a selection without fields would match everything; write one`,
    );
    return undefined;
  }
  const seen = new Map<string, string>();
  const fields = node.entries.map(({ key, line, value }): SigmaField | undefined => {
    const [field, ...modifiers] = key.split("|");
    if (modifiers.length) refuseModifiers(key, modifiers, line, notes);
    const twin = modifiers.length ? undefined : seen.get(field.toLowerCase());
    if (twin !== undefined) {
      notes.refuse(
        "field-case",
        line,
        `${field} and ${twin} differ in nothing but their case; write one of them`,
      );
    } else if (!modifiers.length) seen.set(field.toLowerCase(), field);
    if (!field) {
      notes.refuse("selection-keywords", line, `${shown(key)}: a value without a field is not supported`);
    }
    const values = literalsOf(field, value, notes);
    return values && field && !modifiers.length ? { name: field, line, values } : undefined;
  });
  return fields.every((field) => field !== undefined) ? fields : undefined;
}

function refuseModifiers(key: string, modifiers: string[], line: number, notes: Notes): void {
  for (const modifier of modifiers) {
    const instead = MODIFIERS.get(modifier.toLowerCase()) ?? "write field: exact values";
    notes.refuse(
      "field-modifier",
      line,
      `${key}: the modifier ${shown(modifier)} is not supported; ${instead}`,
    );
  }
}
