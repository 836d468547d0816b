/**
 * Tables of a store, from the catalogue of events: one definition of columns for Parquet, DuckDB and
 * ClickHouse.
 */
import { catalogue } from "../../event/mod.ts";
import {
  columnOf,
  type Dialect,
  type HuntSource,
  isOfResponse,
  outcomeColumnOf,
} from "../../detection/sql/mod.ts";

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
type TableName = keyof typeof TABLES;

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
function columnsOf(table: TableName, dialect: Dialect): { name: string; type: string }[] {
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

// Tables to hunt in: Parquet of a store, a ClickHouse or DuckDB database, or ledgers as they are.

const quote = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("'", "\\'");
const quoteDuck = (text: string) => text.replaceAll("'", "''");

/** Columns of the row itself. */
const ROW = ["machine_id", "session_id", "sequence", "event_id", "event_type", "timestamp_unix_ms", "family"];

/**
 * Parquet files of a store, as a table with the columns of this sbx: files of an earlier sbx lack some, files
 * of a later one have more.
 */
export function parquetTable(dir: string, dialect: Dialect): (name: string) => string {
  return (name) => {
    const columns = columnsOf(name as TableName, dialect);
    if (dialect === "clickhouse") {
      const structure = columns.map(({ name, type }) => `${name} ${type}`).join(", ");
      return `file('${quote(dir)}/parts/*/${name}.parquet', 'Parquet', '${structure}')`;
    }
    const none = columns.map(({ name, type }) => `NULL::${type} AS ${name}`).join(", ");
    return `(SELECT * FROM read_parquet('${quoteDuck(dir)}/parts/*/${name}.parquet', union_by_name = true)
      UNION ALL BY NAME SELECT ${none} WHERE false)`;
  };
}

/**
 * Tables of a ClickHouse server with the columns of this sbx.
 * @param found names of the columns that a table has
 */
export function serverTable(found: (table: string) => Set<string>): (name: string) => string {
  const tables = new Map<string, string>();
  return (name) => {
    let text = tables.get(name);
    if (!text) {
      const has = found(name);
      const missing = columnsOf(name as TableName, "clickhouse").filter((column) => !has.has(column.name));
      const none = missing.map(({ name, type }) => `, CAST(NULL AS ${type}) AS ${name}`).join("");
      // FINAL: of rows that were inserted twice one counts.
      tables.set(name, text = `(SELECT *${none} FROM ${name} FINAL)`);
    }
    return text;
  };
}

/** Tables of a database, by `sbx-admin fleet schema`. */
export function tableSource(dialect: Dialect, table: (name: string) => string = (name) => name): HuntSource {
  return {
    events(fields) {
      // Contents have no column of their own.
      const texts = fields.filter((path) => path.endsWith(".body.text"));
      const from = table("events");
      if (texts.length === 0) return from;
      const own = fields.filter((path) => !texts.includes(path)).map(columnOf).filter((name) =>
        !ROW.includes(name)
      );
      const extracted = texts.map((path) =>
        `${jsonField(dialect, "event", path, "string")} AS ${columnOf(path)}`
      );
      return `(SELECT ${[...ROW, ...own, ...extracted].join(", ")} FROM ${from})`;
    },
    outcomes(fields) {
      const texts = [...new Set(fields.filter((path) => path.endsWith(".body.text")))];
      const from = table("outcomes");
      if (texts.length === 0) return from;
      const own = ["machine_id", "session_id", "number", "event_id", "has_response"];
      const columns = new Set([
        ...own,
        ...fields.filter((path) => !texts.includes(path)).map(outcomeColumnOf),
      ]);
      const extracted = new Set(
        texts.map((path) =>
          `${jsonField(dialect, "outcome", path.split(".").slice(1).join("."), "string")} AS ${
            outcomeColumnOf(path)
          }`
        ),
      );
      return `(SELECT ${[...columns, ...extracted].join(", ")} FROM ${from})`;
    },
  };
}

/** Ledgers of sessions, which ClickHouse reads itself. */
export function ledgerSource(paths: readonly string[]): HuntSource {
  const union = (select: (path: string) => string) => `(${paths.map(select).join("\n UNION ALL ")})`;
  return {
    events: (fields) =>
      union((path) =>
        `SELECT '' AS machine_id, ${
          common("session_id", "String")
        } AS session_id, toUInt64(sequence) AS sequence,
          assumeNotNull(event_id) AS event_id, assumeNotNull(event_type) AS event_type,
          ${
          common("timestamp_unix_ms", "Int64")
        } AS timestamp_unix_ms, splitByChar('.', event_type)[1] AS family
          ${
          fields.filter((field) => !ROW.includes(columnOf(field))).map((field) =>
            `, ${jsonField("clickhouse", "event", field, typeOf(field))} AS ${columnOf(field)}`
          ).join("")
        } FROM sqlite('${quote(path)}', 'entries')`
      ),
    outcomes: (fields) =>
      union((path) => {
        const columns = new Map(fields.filter(isOfResponse).map((field) => [outcomeColumnOf(field), field]));
        return `SELECT '' AS machine_id, (SELECT any(session_id) FROM sqlite('${
          quote(path)
        }', 'ledger_info')) AS session_id,
          toUInt64(number) AS number, assumeNotNull(event_id) AS event_id,
          JSONHas(assumeNotNull(outcome), 'response') AS has_response
          ${
          [...columns].map(([name, field]) =>
            `, ${
              jsonField("clickhouse", "outcome", field.split(".").slice(1).join("."), typeOf(field))
            } AS ${name}`
          ).join("")
        } FROM sqlite('${quote(path)}', 'outcomes')`;
      }),
  };
}

function common(name: string, type: string): string {
  return `JSONExtract(assumeNotNull(event), 'common', '${name}', '${type}')`;
}

function typeOf(path: string): string {
  return catalogue.get(path)?.type ?? "string";
}

/** A field in a text of JSON; NULL if missing. Paths come from the catalogue, never from a rule. */
function jsonField(dialect: Dialect, text: string, path: string, type: string): string {
  if (dialect === "duckdb") return `json_extract_string(${text}, '$.${path}')`;
  const name = { string: "String", number: "Int64", bool: "Bool" }[type] ?? "String";
  const keys = path.split(".").map((key) => `'${key}'`).join(", ");
  return `JSONExtract(assumeNotNull(${text}), ${keys}, 'Nullable(${name})')`;
}
