/** Rows of segments as rows of tables, for a database that is given values and not JSON to take apart. */
import type { Line } from "../segment/mod.ts";
import { type Column, EVENT_FIELDS, OUTCOME_FIELDS } from "./columns.ts";
import { clean } from "./text.ts";

/** Values of a row by column; what is missing is NULL. */
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
    ...valuesOf(EVENT_FIELDS, event),
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
    ...valuesOf(OUTCOME_FIELDS, outcome),
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

/** Values of columns. One of another type, which only a broken machine sends, would spoil the rows beside it: it is left out. */
function valuesOf(fields: readonly Column[], root: unknown): TableRow {
  const row: TableRow = {};
  for (const { name, type, path } of fields) {
    const value = at(root, path!);
    if (type === "string" && typeof value === "string") row[name] = value.toWellFormed();
    else if (type === "number" && Number.isSafeInteger(value)) row[name] = value as number;
    else if (type === "bool" && typeof value === "boolean") row[name] = value;
  }
  return row;
}

function text(name: string, value: unknown): Record<string, string> {
  return typeof value === "string" ? { [name]: value.toWellFormed() } : {};
}

function at(root: unknown, path: string): unknown {
  let value = root;
  for (const key of path.split(".")) {
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
