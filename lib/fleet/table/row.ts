/** Rows of segments as rows of tables, for a database that takes values instead of parsing JSON. */
import type { Line } from "../segment/mod.ts";
import { type Column, EVENT_FIELDS, OUTCOME_FIELDS } from "./columns.ts";

/** Values of a row by column; missing ones are NULL. */
export type TableRow = Record<string, string | number | boolean>;

/** Place of a row. */
export interface RowKey {
  machine_id: string;
  session_id: string;
  /** from 1 on, in its chain */
  number: number;
}

/** Makes the row of an event. */
export function eventRow({ machine_id, session_id, number }: RowKey, line: Extract<Line, { kind: "event" }>) {
  const event = parse(line.text);
  const record = parse(line.record ?? "");
  return {
    machine_id,
    session_id,
    sequence: number,
    ...valuesOf(EVENT, event),
    ...text("family", text("family", at(event, "common.event_type")).family?.split(".")[0]),
    ...text("decision", at(record, "decision")),
    ...text("rule_id", at(record, "rule.id")),
    whole: line.whole,
    hash: line.hash,
    event: clean(line.text).toWellFormed(),
    ...(line.record !== null && { record: clean(line.record).toWellFormed() }),
  } as TableRow;
}

/** Makes the row of an outcome. */
export function outcomeRow(
  { machine_id, session_id, number }: RowKey,
  line: Extract<Line, { kind: "outcome" }>,
) {
  const outcome = parse(line.text);
  return {
    machine_id,
    session_id,
    number,
    ...text("event_id", at(outcome, "event_id")),
    ...text("decision", at(outcome, "decision.decision")),
    ...text("rule_id", at(outcome, "decision.rule.id")),
    has_response: at(outcome, "response") !== undefined,
    ...valuesOf(OUTCOME, outcome),
    whole: line.whole,
    hash: line.hash,
    outcome: clean(line.text).toWellFormed(),
  } as TableRow;
}

/** Makes the row of a finding, an answer or a statement. */
export function journalRow(
  { machine_id, session_id, number }: RowKey,
  { of, id, hash, text: record }: Extract<Line, { kind: "journal" }>,
): TableRow {
  return {
    machine_id,
    session_id,
    number,
    kind: clean(of).toWellFormed(),
    id: clean(id).toWellFormed(),
    hash,
    ...(record !== null && { record: clean(record).toWellFormed() }),
  };
}

/** Columns by the first key of their path, so that only the fields of an event's own family are read. */
type Fields = ReadonlyMap<string, readonly { name: string; type: Column["type"]; rest: string[] }[]>;
const EVENT = fieldsOf(EVENT_FIELDS);
const OUTCOME = fieldsOf(OUTCOME_FIELDS);

function fieldsOf(columns: readonly Column[]): Fields {
  const fields = columns.map(({ name, type, path }) => {
    const [first, ...rest] = path!.split(".");
    return { name, type, first, rest };
  });
  return Map.groupBy(fields, ({ first }) => first);
}

/**
 * Values of columns. A value of another type, which only a broken machine sends, would spoil its neighbours:
 * it is left out.
 */
function valuesOf(fields: Fields, root: unknown): TableRow {
  const row: TableRow = {};
  if (typeof root !== "object" || root === null) return row;
  for (const [first, part] of Object.entries(root)) {
    for (const { name, type, rest } of fields.get(first) ?? []) {
      const value = below(part, rest);
      if (type === "string" && typeof value === "string") row[name] = value.toWellFormed();
      else if (type === "number" && Number.isSafeInteger(value)) row[name] = value as number;
      else if (type === "bool" && typeof value === "boolean") row[name] = value;
    }
  }
  return row;
}

function text(name: string, value: unknown): Record<string, string> {
  return typeof value === "string" ? { [name]: value.toWellFormed() } : {};
}

function at(root: unknown, path: string): unknown {
  return below(root, path.split("."));
}

function below(root: unknown, keys: readonly string[]): unknown {
  let value = root;
  for (const key of keys) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Replaces control characters, which separate rows and columns, and lone surrogates, which no database takes.
 */
export function clean(text: string): string {
  // deno-lint-ignore no-control-regex
  const plain = /[\x00-\x1f]/.test(text) ? text.replaceAll(/[\x00-\x1f]/g, " ") : text;
  if (!/\\u[dD][89a-fA-F]/.test(plain)) return plain;
  try {
    return JSON.stringify(
      JSON.parse(plain),
      (_, value) => typeof value === "string" ? value.toWellFormed() : value,
    );
  } catch {
    return plain;
  }
}
