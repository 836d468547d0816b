/** Exact values of Sigma fields. Inexact values and values that YAML parsers read differently are errors. */
import { nearest, suggestion } from "../../base/text/mod.ts";
import type { CatalogueField } from "../../event/mod.ts";
import { LOWER_CASE, NEVER_EMPTY } from "../field.ts";
import { type MatchValue, VALUE_MAX, VALUES_MAX } from "../ir/ir.ts";
import type { ScalarNode, TreeNode } from "../tree/mod.ts";
import { type Notes, quote } from "./notes.ts";

/**
 * Plain scalars that YAML 1.1, used by Sigma's own tools, reads differently from YAML 1.2: booleans, octal
 * and sexagesimal numbers, dates.
 */
const AMBIGUOUS = /^(y|n|yes|no|on|off)$|^[-+]?0[0-7_]+$|^[-+]?\d+(:[0-5]?\d)+(\.\d*)?$|^\d{4}-\d\d?-\d\d?/i;

/** `%name%`, except percent-encoded bytes such as `%C3%`, which a URL may contain. */
const PLACEHOLDER = /%(?![0-9A-Fa-f]{2}%)[A-Za-z_][\w.-]*%/;

/** Exact value of a field, with its line. */
export interface Literal {
  line: number;
  value: MatchValue;
}

/** Reads the OR-linked values of a field; `undefined` if one is invalid, with the reason in `notes`. */
export function literalsOf(field: string, node: TreeNode, notes: Notes): Literal[] | undefined {
  if (node.kind === "map") {
    notes.reject(
      "value-map",
      node.line,
      `${field}: a map as a value is not supported; write exact values`,
    );
    return undefined;
  }
  if (node.kind === "scalar") return allOrNone([literalOf(field, node, notes)]);
  if (!node.items.length) {
    notes.reject("value-empty-list", node.line, `${field}: an empty list never matches; add values`);
    return undefined;
  }
  if (node.items.length > VALUES_MAX) {
    notes.reject(
      "value-size",
      node.line,
      `${field}: more than ${VALUES_MAX} values; split the rule`,
    );
    return undefined;
  }
  return allOrNone(node.items.map((item) => {
    if (item.kind === "scalar") return literalOf(field, item, notes);
    const [code, kind] = item.kind === "map"
      ? ["value-map", "a map"] as const
      : ["value-nested-list", "a list"] as const;
    notes.reject(
      code,
      item.line,
      `${field}: ${kind} in a list of values is not supported; write exact values`,
    );
  }));
}

function allOrNone(literals: (Literal | undefined)[]): Literal[] | undefined {
  return literals.every((literal) => literal !== undefined) ? literals : undefined;
}

function literalOf(field: string, { value, plain, line }: ScalarNode, notes: Notes): Literal | undefined {
  if (value === null) {
    notes.reject(
      "value-null",
      line,
      `${field}: null (an absent field) is not supported; remove it`,
    );
  } else if (plain !== undefined && AMBIGUOUS.test(plain)) {
    notes.reject(
      "value-ambiguous",
      line,
      `${field}: YAML parsers read ${plain} differently; write '${plain}'`,
    );
  } else if (typeof value === "number") {
    if (Number.isFinite(value) && (Number.isSafeInteger(value) || !Number.isInteger(value))) {
      return { line, value };
    }
    notes.reject(
      "value-number",
      line,
      `${field}: the number ${
        plain ?? value
      } cannot be compared exactly; use a safe integer or a finite decimal`,
    );
  } else if (typeof value === "boolean") return { line, value };
  else {
    const text = readText(field, value, line, notes);
    if (text !== undefined) return { line, value: text };
  }
}

/** Reads a string value; the escapes `\*`, `\?` and `\\` are one character each. */
function readText(field: string, source: string, line: number, notes: Notes): string | undefined {
  if (source.length > VALUE_MAX) {
    notes.reject("value-size", line, `${field}: the value is longer than ${VALUE_MAX} characters`);
    return undefined;
  }
  const wildcard = /(?<!\\)(?:\\\\)*([*?])/.exec(source)?.[1];
  if (wildcard) {
    notes.reject(
      "value-wildcard",
      line,
      `${field}: the wildcard ${wildcard} in ${quote(source)} is not supported; ` +
        `list the exact values, or write \\${wildcard} for a literal ${wildcard}`,
    );
    return undefined;
  }
  const placeholder = PLACEHOLDER.exec(source)?.[0];
  if (placeholder) {
    notes.reject(
      "value-placeholder",
      line,
      `${field}: the placeholder ${quote(placeholder)} is not supported; list its values`,
    );
    return undefined;
  }
  return source.replace(/\\([\\*?])/g, "$1");
}

const TYPE_WORDS = { string: "a string", number: "a number", bool: "true or false" };

/**
 * Checks that an event field can have a value; problems are reported to `notes`.
 *
 * @param field the Sigma field
 * @param path the event field
 */
export function canHold(
  { value, line }: Literal,
  field: string,
  path: string,
  definition: CatalogueField,
  notes: Notes,
): boolean {
  const type = definition.type as keyof typeof TYPE_WORDS;
  const valueType = typeof value === "boolean" ? "bool" : typeof value as "string" | "number";
  if (valueType !== type) {
    const instead = type === "string"
      ? `write '${value}'`
      : type === "number" && Number.isFinite(Number(value)) && value !== ""
      ? `write ${Number(value)} without quotes`
      : `write ${TYPE_WORDS[type]}`;
    notes.reject("value-type", line, `${field}: ${path} must be ${TYPE_WORDS[type]}; ${instead}`);
    return false;
  }
  if (definition.values && !definition.values.includes(value as string)) {
    const near = nearest(value as string, definition.values);
    notes.reject(
      "value-impossible",
      line,
      `${field}: ${path} is never ${quote(value as string)}; ${
        near ? suggestion(near) : `use one of ${definition.values.join(", ")}`
      }`,
    );
    return false;
  }
  if (value === "" && NEVER_EMPTY.includes(path)) {
    notes.reject(
      "value-impossible",
      line,
      `${field}: ${path} is never empty; write the value that it must have`,
    );
    return false;
  }
  if (LOWER_CASE.includes(path) && value !== (value as string).toLowerCase()) {
    const lower = (value as string).toLowerCase();
    notes.reject("value-impossible", line, `${field}: ${path} is always lower case; write ${quote(lower)}`);
    return false;
  }
  return true;
}
