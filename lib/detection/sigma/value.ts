/** Exact values of Sigma fields: what is not exact, or means another thing to another YAML reader, is refused. */
import type { CatalogueField } from "../../event/mod.ts";
import { nearest } from "../../event/mod.ts";
import { LOWER_CASE } from "../field.ts";
import { type MatchValue, VALUE_MAX, VALUES_MAX } from "../ir.ts";
import type { ScalarNode, TreeNode } from "../tree/mod.ts";
import { type Notes, shown } from "./notes.ts";

/**
 * What YAML 1.1, which Sigma's own tools read, takes for something else than YAML 1.2 does: booleans, octal and
 * sexagesimal numbers, dates.
 */
const AMBIGUOUS = /^(y|n|yes|no|on|off)$|^[-+]?0[0-7_]+$|^[-+]?\d+(:[0-5]?\d)+(\.\d*)?$|^\d{4}-\d\d?-\d\d?/i;

/** `%name%`; but for `%C3%`, which a URL may hold. */
const PLACEHOLDER = /%(?![0-9A-Fa-f]{2}%)[A-Za-z_][\w.-]*%/;

/** An exact value of a field, with its place. */
export interface Literal {
  line: number;
  value: MatchValue;
}

/** The values of a field, OR-linked; undefined when one of them is refused, and `notes` say why. */
export function literalsOf(field: string, node: TreeNode, notes: Notes): Literal[] | undefined {
  if (node.kind === "map") {
    notes.refuse(
      "value-map",
      node.line,
      `${field}: a map below a field is not supported; write exact values`,
    );
    return undefined;
  }
  if (node.kind === "scalar") return all([literalOf(field, node, notes)]);
  if (!node.items.length) {
    notes.refuse("value-empty-list", node.line, `${field}: an empty list never matches; write its values`);
    return undefined;
  }
  if (node.items.length > VALUES_MAX) {
    notes.refuse(
      "value-size",
      node.line,
      `${field}: more than ${VALUES_MAX} values; make several rules of it`,
    );
    return undefined;
  }
  return all(node.items.map((item) => {
    if (item.kind === "scalar") return literalOf(field, item, notes);
    const [code, what] = item.kind === "map"
      ? ["value-map", "a map"] as const
      : ["value-nested-list", "a list"] as const;
    notes.refuse(code, item.line, `${field}: ${what} among its values is not supported; write exact values`);
  }));
}

function all(literals: (Literal | undefined)[]): Literal[] | undefined {
  return literals.every((literal) => literal !== undefined) ? literals : undefined;
}

function literalOf(field: string, { value, plain, line }: ScalarNode, notes: Notes): Literal | undefined {
  if (value === null) {
    notes.refuse(
      "value-null",
      line,
      `${field}: null asks for an absent field, which is not supported; remove it`,
    );
  } else if (plain !== undefined && AMBIGUOUS.test(plain)) {
    notes.refuse(
      "value-ambiguous",
      line,
      `${field}: ${plain} is not the same to every YAML reader; write '${plain}'`,
    );
  } else if (typeof value === "number") {
    if (Number.isFinite(value) && (Number.isSafeInteger(value) || !Number.isInteger(value))) {
      return { line, value };
    }
    notes.refuse(
      "value-number",
      line,
      `${field}: ${plain ?? value} is no number that can be compared exactly`,
    );
  } else if (typeof value === "boolean") return { line, value };
  else {
    const text = exactText(field, value, line, notes);
    if (text !== undefined) return { line, value: text };
  }
}

/** The text that a Sigma value stands for: `\*`, `\?` and `\\` are one character each. */
function exactText(field: string, written: string, line: number, notes: Notes): string | undefined {
  if (written.length > VALUE_MAX) {
    notes.refuse("value-size", line, `${field}: longer than ${VALUE_MAX} characters`);
    return undefined;
  }
  const wildcard = /(?<!\\)(?:\\\\)*([*?])/.exec(written)?.[1];
  if (wildcard) {
    notes.refuse(
      "value-wildcard",
      line,
      `${field}: the wildcard ${wildcard} in ${shown(written)} is not supported; ` +
        `list the exact values, or write \\${wildcard} for the character itself`,
    );
    return undefined;
  }
  const placeholder = PLACEHOLDER.exec(written)?.[0];
  if (placeholder) {
    notes.refuse(
      "value-placeholder",
      line,
      `${field}: the placeholder ${shown(placeholder)} is not supported; list the values that it stands for`,
    );
    return undefined;
  }
  return written.replace(/\\([\\*?])/g, "$1");
}

const TYPE_WORDS = { string: "text", number: "a number", bool: "true or false" };

/**
 * Whether a value is one that the event's field can have; `notes` say why not.
 *
 * @param path of the event's field
 */
export function canHold(
  { value, line }: Literal,
  field: string,
  path: string,
  known: CatalogueField,
  notes: Notes,
): boolean {
  const type = known.type as keyof typeof TYPE_WORDS;
  const given = typeof value === "boolean" ? "bool" : typeof value as "string" | "number";
  if (given !== type) {
    const instead = type === "string"
      ? `write '${value}'`
      : type === "number" && Number.isFinite(Number(value)) && value !== ""
      ? `write ${Number(value)} without quotes`
      : `write ${TYPE_WORDS[type]}`;
    notes.refuse("value-type", line, `${field}: ${path} is ${TYPE_WORDS[type]}; ${instead}`);
    return false;
  }
  if (known.values && !known.values.includes(value as string)) {
    const near = nearest(value as string, known.values);
    notes.refuse(
      "value-impossible",
      line,
      `${field}: ${path} is never ${shown(value as string)}; ${
        near ? `did you mean "${near}"?` : `it is one of ${known.values.join(", ")}`
      }`,
    );
    return false;
  }
  if (LOWER_CASE.includes(path) && value !== (value as string).toLowerCase()) {
    const lower = (value as string).toLowerCase();
    notes.refuse("value-impossible", line, `${field}: ${path} is always lower case; write ${shown(lower)}`);
    return false;
  }
  return true;
}
