/** Tables to hunt in: Parquet of a store, a ClickHouse or DuckDB database, or ledgers as they are. */
import { columnsOf, type TableName } from "./columns.ts";
import { catalogue } from "../../event/mod.ts";
import {
  columnOf,
  type Dialect,
  type HuntSource,
  isOfResponse,
  outcomeColumnOf,
} from "../../detection/sql/mod.ts";

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

/** Tables of a ClickHouse server with the columns of this sbx. @param found names of the columns that a table has */
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
