/** Events and sources of Sigma's log sources and fields; `taxonomy.json` has the tables. */
import { catalogue, EVENT_FAMILIES, fieldsOfFamily } from "../../event/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { quote } from "../sigma/notes.ts";
import { entryOf, scalarOf, type TreeNode } from "../tree/mod.ts";
import type { RuleNotes } from "./notes.ts";
import { type PlanExpr, SOURCE_MAX } from "./plan.ts";
import TABLES from "./taxonomy.json" with { type: "json" };

/** A log source that sbx has events of. */
export interface Logsource {
  product?: string;
  category?: string;
  service?: string;
  events: string[];
  /** the events among them that belong to it */
  where: PlanExpr;
  /** sources of a field. @returns `undefined` for a field that its events never have */
  sources(field: string): string[] | undefined;
}

interface Row {
  category?: string;
  products: string[];
  /** false: a rule without a product is of it too */
  productNeeded?: boolean;
  services?: string[];
  serviceNeeded?: boolean;
  events: string[];
  where?: Record<string, string[]>;
  fields: string;
}

/**
 * Maximum characters of a field that names a part of a map: a plan allows its
 * source, also with a part of a date.
 */
const FIELD_MAX = SOURCE_MAX - 16;

type Fields = Record<string, string | string[]>;
const GROUPS = TABLES.fields as Record<string, Fields>;
const ROWS = TABLES.logsources as Row[];

/** Words of a logsource, as a rule has them. */
export function logsourceWords(
  node: TreeNode | undefined,
): Pick<Logsource, "product" | "category" | "service"> {
  const words: Pick<Logsource, "product" | "category" | "service"> = {};
  for (const key of ["product", "category", "service"] as const) {
    const value = scalarOf(entryOf(node, key)?.value);
    if (value !== undefined && value !== null && value !== "") words[key] = String(value).toLowerCase();
  }
  return words;
}

/**
 * Finds the events of a logsource.
 *
 * @returns `undefined` if sbx has none; the reason is in `notes` as `not-applicable`, or as
 * `logsource` for one that is not valid
 */
export function readLogsource(
  node: TreeNode | undefined,
  line: number,
  notes: RuleNotes,
): Logsource | undefined {
  const words = logsourceWords(node);
  const { product, category, service } = words;
  const at = node?.line ?? line;
  if (product === undefined && category === undefined && service === undefined) {
    notes.reject("logsource", at, "logsource has no product, category or service");
    return undefined;
  }
  if (product === "sbx") return ownLogsource(category, at, notes);
  const row = ROWS.find((row) => fits(row, words));
  if (row) {
    const fields = fieldsOf(row.fields);
    return {
      ...words,
      events: row.events,
      where: whereOf(row),
      sources: (field) => sourcesIn(fields, field),
    };
  }
  const name = Object.entries(words).map(([key, value]) => `${key} ${value}`).join(", ");
  notes.reject("not-applicable", at, `a VM of sbx has no events of the logsource ${quote(name)}`);
}

function fits(
  { category, products, productNeeded = false, services = [], serviceNeeded = false }: Row,
  words: Pick<Logsource, "product" | "category" | "service">,
): boolean {
  return category === words.category &&
    (words.product === undefined ? !productNeeded : products.includes(words.product)) &&
    (words.service === undefined ? !serviceNeeded : services.includes(words.service));
}

function whereOf({ where = {} }: Row): PlanExpr {
  const tests = Object.entries(where).map(([path, values]): PlanExpr => ({
    on: [path],
    is: values.map((text) => ({ t: "text", at: "is", text })),
  }));
  return tests.length === 0 ? true : tests.length === 1 ? tests[0] : { all: tests };
}

const fieldsByGroup = new Map<string, ReadonlyMap<string, string[]>>();

/** The fields of a group and of the groups that it includes; its own count more. */
function fieldsOf(group: string): ReadonlyMap<string, string[]> {
  const known = fieldsByGroup.get(group);
  if (known) return known;
  const { include = [], ...own } = GROUPS[group];
  const fields = new Map([include].flat().flatMap((name) => [...fieldsOf(name)]));
  for (const [field, sources] of Object.entries(own)) fields.set(field, [sources].flat());
  fieldsByGroup.set(group, fields);
  return fields;
}

/** Rules write some fields in another case than the taxonomy does. */
function sourcesIn(fields: ReadonlyMap<string, string[]>, field: string): string[] | undefined {
  const exact = fields.get(field);
  if (exact) return exact;
  const lower = field.toLowerCase();
  return [...fields].find(([name]) => name.toLowerCase() === lower)?.[1];
}

/** Rules over sbx's own events: fields are paths of events. */
function ownLogsource(category: string | undefined, line: number, notes: RuleNotes): Logsource | undefined {
  const family = EVENT_FAMILIES.find((family) => family === category);
  if (!family) {
    const near = category === undefined ? undefined : didYouMean(category, EVENT_FAMILIES);
    notes.reject(
      "logsource",
      line,
      `logsource.category of product sbx must be one of ${EVENT_FAMILIES.join(", ")}${
        near ? `; ${near}` : ""
      }`,
    );
    return undefined;
  }
  const events = catalogue.get("common.event_type")!.values!.filter((type) => type.startsWith(`${family}.`));
  const paths = new Set(fieldsOfFamily(family));
  return {
    product: "sbx",
    category: family,
    events,
    where: true,
    sources(field) {
      if (paths.has(field)) return [field];
      if (field.length > FIELD_MAX) return undefined;
      // A key of a map, or a place of a list: `http.request.headers.user-agent`.
      const [path] = [...paths].filter((path) =>
        field.startsWith(`${path}.`) && ["map", "list"].includes(catalogue.get(path)!.type)
      );
      return path === undefined ? undefined : [`${path}[${field.slice(path.length + 1)}]`];
    },
  };
}
