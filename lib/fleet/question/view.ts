/** Questions as views of a database, for clients without sbx (docs/guides/fleet.md, "Questions"). */
import type { Dialect } from "../../detection/sql/mod.ts";
import { writingOf } from "./ask.ts";
import { type Question, QUESTIONS } from "./questions.ts";

/** Name of the view of a question. */
export function viewName({ name }: Pick<Question, "name">): string {
  return `ask_${name.replaceAll("-", "_")}`;
}

/**
 * DDL of the views: in ClickHouse `SELECT * FROM ask_left(value = 'SESSION', since = 0)`, in DuckDB macros
 * called with the same names and `:=`. `since` is in Unix `ms`. Views have their questions' parameters.
 */
export function viewStatements(dialect: Dialect): string[] {
  return QUESTIONS.map((question) =>
    dialect === "clickhouse" ? clickHouseView(question) : duckDbMacro(question)
  );
}

function clickHouseView(question: Question): string {
  const sql = question.sql(writingOf("clickhouse", {
    from: (table) => `(SELECT * FROM ${table} FINAL)`,
    value: "{value:String}",
    since: "{since:Int64}",
  }));
  return `CREATE OR REPLACE VIEW ${viewName(question)} AS\n${sql}\nSETTINGS join_use_nulls = 1`;
}

function duckDbMacro(question: Question): string {
  const sql = question.sql(writingOf("duckdb", { from: (table) => table, value: "value", since: "since" }));
  const parameters = [...(question.value ? ["value"] : []), ...(sql.includes(">= since") ? ["since"] : [])];
  return `CREATE OR REPLACE MACRO ${viewName(question)}(${parameters.join(", ")}) AS TABLE\n${sql}`;
}
