import { SbxError } from "../../base/error/mod.ts";
import { nearest } from "../../base/text/mod.ts";
import type { Dialect } from "../../detection/sql/mod.ts";
import type { Engine, Parameters, Row } from "../engine/mod.ts";
import type { Machine } from "../receive/mod.ts";
import { jsonText, type Question, QUESTIONS, type Writing } from "./questions.ts";

/** Where a question is asked. */
export interface Asked {
  engine: Engine;
  /** table by name */
  table(name: string): string;
  /** absent: they are a table */
  machines?: readonly Machine[];
}

/** Most rows of an answer. */
export const ANSWER_ROWS = 1000;

/** Finds a question. @throws {SbxError} `fleet.question.not_found` */
export function findQuestion(name: string): Question {
  const question = QUESTIONS.find((each) => each.name === name);
  if (question) return question;
  const near = nearest(name, QUESTIONS.map((each) => each.name));
  throw new SbxError("fleet.question.not_found", `there is no question "${name}"`, {
    hint: near ? `did you mean ${near}?` : "sbx fleet ask lists them",
  });
}

/**
 * Answers a question.
 *
 * @param value subject of the question
 * @param since beginning of the time asked for, in Unix `ms`
 */
export async function ask(
  { engine, table, machines }: Asked,
  question: Question,
  { value, since = 0 }: { value?: string; since?: number } = {},
): Promise<Row[]> {
  if ((value === undefined) !== (question.value === undefined)) {
    throw new SbxError(
      "usage.invalid",
      question.value === undefined
        ? `the question ${question.name} takes no value`
        : `the question ${question.name} needs a value: ${question.value}`,
    );
  }
  const { sql, parameters } = writeQuestion(question, engine.dialect, { table, machines, value, since });
  return (await engine.rows(sql, parameters)).map(withTimes);
}

/** Writes the statement of a question. */
export function writeQuestion(
  question: Question,
  dialect: Dialect,
  { table, machines, value, since = 0 }: Pick<Asked, "table" | "machines"> & {
    value?: string;
    since?: number;
  },
): { sql: string; parameters: Parameters } {
  const parameter = (name: string, type: string) => dialect === "duckdb" ? `$${name}` : `{${name}:${type}}`;
  const parameters: Parameters = {};
  const write = writingOf(dialect, {
    from: (name) => name === "machines" && machines ? machineRows(machines) : table(name),
    value: parameter("value", "String"),
    since: parameter("since", "Int64"),
  });
  const sql = `SELECT * FROM (\n${question.sql(write)}\n) AS answer LIMIT ${ANSWER_ROWS}`;
  if (sql.includes(parameter("since", "Int64"))) parameters.since = { type: "number", values: [since] };
  if (value !== undefined) parameters.value = { type: "string", values: [value] };
  return { sql, parameters };
}

/** Builds the parts a question writes its statement with. @param since Unix `ms` in SQL */
export function writingOf(
  dialect: Dialect,
  { from, value, since }: Pick<Writing, "from" | "value"> & { since: string },
): Writing {
  return {
    from,
    value,
    json: (column, path) => jsonText(dialect, column, path),
    contains: (column) =>
      dialect === "duckdb" ? `contains(${column}, ${value})` : `position(${column}, ${value}) > 0`,
    since: `e.timestamp_unix_ms >= ${since}`,
  };
}

/** Machines as a table. Their names were checked when they enrolled: letters, digits and . _ @ - */
function machineRows(machines: readonly Machine[]): string {
  const quote = (text: string) => `'${text.replaceAll(/['\\]/g, "")}'`;
  const rows = machines.map(({ machine_id, name, team = "" }) =>
    `SELECT ${quote(machine_id)} AS machine_id, ${quote(name)} AS name, ${quote(team)} AS team`
  );
  const none = "SELECT '' AS machine_id, '' AS name, '' AS team WHERE 1 = 0";
  return `(${rows.length > 0 ? rows.join(" UNION ALL ") : none})`;
}

/** Replaces times in Unix `ms` by texts. */
function withTimes(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (!name.endsWith("_ms")) return [name, value];
      return [name.slice(0, -"_ms".length), typeof value === "number" ? new Date(value).toISOString() : ""];
    }),
  );
}
