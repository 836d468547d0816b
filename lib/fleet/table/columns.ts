/** Columns of the tables of a store, from the catalogue of events: one definition for Parquet, DuckDB and ClickHouse. */
import { catalogue } from "../../event/mod.ts";
import { columnOf, type Dialect, isOfResponse, outcomeColumnOf } from "../../detection/sql/mod.ts";

export type ColumnType = "string" | "number" | "bool";

export interface Column {
  name: string;
  type: ColumnType;
  /** place in the event, or in the outcome */
  path?: string;
}

/** Contents of requests: stored once, in the JSON, and read from there. */
const IN_JSON_ONLY = /\.body\.text$/;
const KEYS = ["machine_id", "session_id"];

/** Fields of events that have a column. */
export const EVENT_FIELDS: readonly Column[] = [...catalogue]
  .filter(([path, { type }]) =>
    path !== "schema_version" && path !== "common.session_id" && path !== "common.sequence" &&
    type !== "list" && type !== "map" && !IN_JSON_ONLY.test(path)
  )
  .map(([path, { type }]) => ({ name: columnOf(path), type: type as ColumnType, path }));

/** Fields of responses, for every family; an end event's fields replace its event's. */
export const OUTCOME_FIELDS: readonly Column[] = [
  ...new Map(
    [...catalogue].filter(([path, { type }]) =>
      isOfResponse(path) && type !== "list" && type !== "map" && !IN_JSON_ONLY.test(path)
    ).map(([path, { type }]) => {
      const name = outcomeColumnOf(path);
      return [name, { name, type: type as ColumnType, path: path.split(".").slice(1).join(".") }];
    }),
  ).values(),
];

const text = (name: string): Column => ({ name, type: "string" });
const number = (name: string): Column => ({ name, type: "number" });
const bool = (name: string): Column => ({ name, type: "bool" });

/** Tables of a store, with all of their columns. */
export const TABLES: Record<"events" | "outcomes" | "journal" | "machines", readonly Column[]> = {
  events: [
    ...KEYS.map(text),
    number("sequence"),
    text("family"),
    ...EVENT_FIELDS,
    text("decision"),
    text("rule_id"),
    bool("whole"),
    text("hash"),
    text("event"),
    text("record"),
  ],
  outcomes: [
    ...KEYS.map(text),
    number("number"),
    text("event_id"),
    text("decision"),
    text("rule_id"),
    bool("has_response"),
    ...OUTCOME_FIELDS,
    bool("whole"),
    text("hash"),
    text("outcome"),
  ],
  journal: [...KEYS.map(text), number("number"), text("kind"), text("id"), text("hash"), text("record")],
  machines: ["machine_id", "name", "team", "enrolled_at"].map(text),
};
export type TableName = keyof typeof TABLES;

const TYPES: Record<Dialect, Record<ColumnType, string>> = {
  duckdb: { string: "VARCHAR", number: "BIGINT", bool: "BOOLEAN" },
  clickhouse: { string: "Nullable(String)", number: "Nullable(Int64)", bool: "Nullable(Bool)" },
};
/** Columns that every row has, and few values of which differ. */
const KEY_TYPES: Record<string, string> = {
  machine_id: "LowCardinality(String)",
  session_id: "LowCardinality(String)",
  family: "LowCardinality(String)",
  sequence: "UInt64",
  number: "UInt64",
  event_id: "String",
};
const ORDER: Record<TableName, string> = {
  events: "machine_id, session_id, sequence",
  outcomes: "machine_id, session_id, number",
  journal: "machine_id, session_id, number",
  machines: "machine_id",
};

/** Columns of a table with a database's types; in files any may be missing. */
export function columnsOf(table: TableName, dialect: Dialect): { name: string; type: string }[] {
  return TABLES[table].map(({ name, type }) => {
    const key = name === "machine_id" || name === "session_id" || name === "event_id" && table === "events";
    return { name, type: dialect === "clickhouse" && key ? "String" : TYPES[dialect][type] };
  });
}

/**
 * DDL of the tables, safe to repeat: it adds columns that an earlier sbx lacked. A row inserted again
 * replaces itself in ClickHouse, and is an error in DuckDB.
 */
export function schemaStatements(dialect: Dialect): string[] {
  return (Object.keys(TABLES) as TableName[]).flatMap((table) => {
    const columns = TABLES[table].map(({ name, type }) => {
      const key = dialect === "clickhouse" ? KEY_TYPES[name] : undefined;
      return { name, type: key ?? TYPES[dialect][type] };
    });
    const end = dialect === "clickhouse"
      ? `) ENGINE = ReplacingMergeTree ORDER BY (${ORDER[table]})`
      : `, PRIMARY KEY (${ORDER[table]}))`;
    const lines = columns.map(({ name, type }) => `  ${name} ${type}`).join(",\n");
    const statements = [`CREATE TABLE IF NOT EXISTS ${table} (\n${lines}\n${end}`];
    if (dialect === "duckdb") return statements;
    const added = columns.filter(({ name }) => !ORDER[table].split(", ").includes(name)).map((
      { name, type },
    ) => `ADD COLUMN IF NOT EXISTS ${name} ${type}`);
    return [...statements, `ALTER TABLE ${table}\n  ${added.join(",\n  ")}`];
  });
}

/** Structure of events for `json_transform` of DuckDB, which parses each text once. */
export function structureOf(fields: readonly Column[]): string {
  const root: Record<string, unknown> = {};
  for (const { path, type } of fields) {
    const parts = path!.split(".");
    let at = root;
    for (const part of parts.slice(0, -1)) at = (at[part] ??= {}) as Record<string, unknown>;
    at[parts.at(-1)!] = TYPES.duckdb[type];
  }
  return JSON.stringify(root);
}
