/** Correlations of Sigma: what happens how often, or together, in a time. */
import { entryOf, type MapNode, scalarOf, type TreeNode } from "../tree/mod.ts";
import { quote } from "../sigma/notes.ts";
import type { RuleNotes } from "./notes.ts";
import {
  CORRELATION_TYPES,
  type CorrelationType,
  COUNT_MAX,
  COUNT_OPERATORS,
  type CountCondition,
  GROUP_MAX,
  TIMESPAN_MAX_MS,
} from "./plan.ts";

/** A correlation as it is written. */
export interface Correlation {
  type: CorrelationType;
  /** ids or names */
  rules: string[];
  groupBy: string[];
  timespan_ms: number;
  count: CountCondition;
  /** counted field */
  field?: string;
  /** alias → rule → field */
  aliases: Record<string, Record<string, string>>;
  /** the rules make findings of their own too */
  generate: boolean;
}

const KEYS = ["type", "rules", "aliases", "group-by", "timespan", "condition", "generate"];

/** Reads a correlation. @returns `undefined` if it is invalid, with the reason in the notes */
export function readCorrelation(root: MapNode, notes: RuleNotes): Correlation | undefined {
  const errors = notes.errors.length;
  const { value: map, line } = entryOf(root, "correlation")!;
  if (map.kind !== "map") {
    notes.reject("correlation", line, "correlation must be a map");
    return undefined;
  }
  for (const { key, line } of map.entries) {
    if (!KEYS.includes(key)) notes.reject("correlation", line, `correlation.${key} is unknown`);
  }
  const type = CORRELATION_TYPES.find((type) => type === scalarOf(entryOf(map, "type")?.value));
  if (!type) {
    notes.reject(
      "correlation",
      lineOf(map, "type"),
      `correlation.type must be one of ${CORRELATION_TYPES.join(", ")}`,
    );
    return undefined;
  }
  const rules = texts(entryOf(map, "rules")?.value);
  if (rules.length === 0) {
    notes.reject("correlation", lineOf(map, "rules"), "correlation.rules names no rule");
  }
  const isTemporal = type === "temporal" || type === "temporal_ordered";
  const most = type === "value_sum" ? Number.MAX_SAFE_INTEGER : COUNT_MAX;
  const { count, field } = readCount(map, { all: isTemporal ? rules.length : undefined, most }, notes);
  const isOfValues = type === "value_count" || type === "value_sum";
  if (isOfValues && field === undefined) {
    notes.reject("correlation", lineOf(map, "condition"), `${type} needs condition.field`);
  }
  const groupBy = texts(entryOf(map, "group-by")?.value);
  if (groupBy.length > GROUP_MAX) {
    notes.reject("limit", lineOf(map, "group-by"), `correlation.group-by has more than ${GROUP_MAX} fields`);
  }
  const correlation: Correlation = {
    type,
    rules,
    groupBy,
    timespan_ms: readTimespan(map, notes),
    count,
    ...(isOfValues && field !== undefined && { field }),
    aliases: readAliases(map, notes),
    generate: scalarOf(entryOf(map, "generate")?.value ?? entryOf(root, "generate")?.value) === true,
  };
  return notes.errors.length > errors ? undefined : correlation;
}

function lineOf(map: MapNode, key: string): number {
  return entryOf(map, key)?.line ?? map.line;
}

/** Texts of a list, or one text. */
function texts(node: TreeNode | undefined): string[] {
  const nodes = node?.kind === "list" ? node.items : node ? [node] : [];
  return nodes.map(scalarOf).filter((text) => typeof text === "string" || typeof text === "number").map(
    String,
  );
}

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

function readTimespan(map: MapNode, notes: RuleNotes): number {
  const text = scalarOf(entryOf(map, "timespan")?.value);
  const [, number, unit] = /^(\d{1,9})([smhdw])$/.exec(String(text)) ?? [];
  const timespan = number === undefined ? 0 : Number(number) * UNITS[unit];
  if (timespan > 0 && timespan <= TIMESPAN_MAX_MS) return timespan;
  notes.reject(
    "correlation",
    lineOf(map, "timespan"),
    `correlation.timespan must be such as 90s, 5m, 1h or 2d, at most ${TIMESPAN_MAX_MS / UNITS.d}d`,
  );
  return 0;
}

/**
 * @param all number of rules of a temporal correlation, all of which are needed by default
 * @param most largest number that can be counted
 */
function readCount(
  map: MapNode,
  { all, most }: { all: number | undefined; most: number },
  notes: RuleNotes,
): { count: CountCondition; field?: string } {
  const entry = entryOf(map, "condition");
  if (!entry && all !== undefined) return { count: { gte: all } };
  if (entry?.value.kind !== "map") {
    notes.reject(
      "correlation",
      lineOf(map, "condition"),
      "correlation.condition must be a map such as {gte: 10}",
    );
    return { count: {} };
  }
  const count: CountCondition = {};
  let field: string | undefined;
  for (const { key, line, value } of entry.value.entries) {
    const operator = COUNT_OPERATORS.find((operator) => operator === key);
    const number = scalarOf(value);
    if (key === "field") [field] = texts(value);
    else if (!operator) notes.reject("correlation", line, `correlation.condition.${key} is unknown`);
    else if (typeof number === "number" && Number.isInteger(number) && number >= 0 && number <= most) {
      count[operator] = number;
    } else notes.reject("correlation", line, `${key} must be a whole number of 0 to ${most}`);
  }
  if (Object.keys(count).length === 0) {
    notes.reject(
      "correlation",
      entry.line,
      `correlation.condition needs one of ${COUNT_OPERATORS.join(", ")}`,
    );
  }
  return { count, ...(field !== undefined && { field }) };
}

function readAliases(map: MapNode, notes: RuleNotes): Correlation["aliases"] {
  const node = entryOf(map, "aliases")?.value;
  if (!node) return {};
  const aliases = node.kind === "map" ? node.entries : [];
  const read = aliases.map(({ key, line, value }) => {
    const fields = value.kind === "map" ? value.entries : [];
    if (fields.length === 0 || fields.some(({ value }) => typeof scalarOf(value) !== "string")) {
      notes.reject("correlation", line, `the alias ${quote(key)} must map rules to fields`);
    }
    return [key, Object.fromEntries(fields.map(({ key, value }) => [key, String(scalarOf(value))]))];
  });
  if (aliases.length === 0) notes.reject("correlation", node.line, "correlation.aliases must be a map");
  return Object.fromEntries(read);
}
