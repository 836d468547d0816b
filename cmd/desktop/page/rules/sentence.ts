/**
 * Match expressions as sentences, both ways: conditions on fields that all have to hold. Others stay text.
 */

export const OPERATORS = ["is", "isNot", "in", "domain", "starts", "ends", "contains"] as const;
export type Operator = typeof OPERATORS[number];

/** One condition: `http.request.host` is in the domain `example.com`. */
export interface Condition {
  field: string;
  operator: Operator;
  /** of `in`, any number; of the others, one */
  values: string[];
}

/** A kind of event, with the fields that a sentence may be about; the first one begins a sentence. */
export const KINDS = {
  http: ["http.request.host", "http.request.method", "http.request.path", "http.request.scheme"],
  dns: ["dns.request.qname", "dns.request.qtype"],
  mcp: ["mcp.request.server_name", "mcp.request.tool_name", "mcp.request.method"],
  model: ["model.request.provider", "model.request.model"],
  process: ["process.activity.executable", "process.activity.command"],
  file: ["file.activity.path", "file.activity.operation"],
} as const satisfies Record<string, readonly [string, ...string[]]>;
export type Kind = keyof typeof KINDS;

/** Fields of every kind: the program that an event is of. */
export const COMMON_FIELDS = ["common.process.executable", "common.process.container.name"] as const;

const METHODS: Partial<Record<Operator, string>> = {
  starts: "startsWith",
  ends: "endsWith",
  contains: "contains",
};

/** The expression of conditions. */
export function matchOf(conditions: readonly Condition[]): string {
  return conditions.map(({ field, operator, values }) => {
    const [value = ""] = values;
    const word = JSON.stringify(value);
    if (operator === "is") return `${field} == ${word}`;
    if (operator === "isNot") return `${field} != ${word}`;
    if (operator === "in") return `${field} in [${values.map((each) => JSON.stringify(each)).join(", ")}]`;
    if (operator === "domain") return `in_domain(${field}, ${word})`;
    return `${field}.${METHODS[operator]}(${word})`;
  }).join(" && ");
}

/** A text in double quotes, with the escapes that CEL and JSON share. */
const TEXT = String.raw`"(?:[^"\\\n]|\\["\\nrt]|\\u[0-9a-fA-F]{4})*"`;
const FIELD = String.raw`[a-z]\w*(?:\.[a-z]\w*)+`;
const FORMS: [RegExp, Operator][] = [
  [new RegExp(`^(${FIELD}) == (${TEXT})$`), "is"],
  [new RegExp(`^(${FIELD}) != (${TEXT})$`), "isNot"],
  [new RegExp(String.raw`^(${FIELD}) in (\[(?:${TEXT}(?:, ?${TEXT})*)?\])$`), "in"],
  [new RegExp(String.raw`^in_domain\((${FIELD}), ?(${TEXT})\)$`), "domain"],
  [new RegExp(String.raw`^(${FIELD})\.startsWith\((${TEXT})\)$`), "starts"],
  [new RegExp(String.raw`^(${FIELD})\.endsWith\((${TEXT})\)$`), "ends"],
  [new RegExp(String.raw`^(${FIELD})\.contains\((${TEXT})\)$`), "contains"],
];
const PARTS = new RegExp(String.raw`((?:${TEXT}|[^"&])+)(?:&&|$)`, "gy");

/** The conditions of an expression; undefined for one that is more than a sentence. */
export function conditionsOf(match: string): Condition[] | undefined {
  if (match.trim() === "") return [];
  const parts = [...match.matchAll(PARTS)];
  if (parts.map(([whole]) => whole).join("") !== match || match.trimEnd().endsWith("&&")) return undefined;
  const conditions = parts.map(([, part]) => conditionOf(part.trim()));
  return conditions.every((each) => each !== undefined) ? conditions : undefined;
}

function conditionOf(part: string): Condition | undefined {
  for (const [form, operator] of FORMS) {
    const found = form.exec(part);
    if (!found) continue;
    const value = JSON.parse(found[2]);
    return { field: found[1], operator, values: Array.isArray(value) ? value : [value] };
  }
}

/** The kind of event that conditions are about. */
export function kindOf(conditions: readonly Condition[]): Kind | undefined {
  const families = new Set(
    conditions.map(({ field }) => field.split(".")[0]).filter((each) => each !== "common"),
  );
  const [family] = families;
  return families.size === 1 && Object.hasOwn(KINDS, family) ? family as Kind : undefined;
}
