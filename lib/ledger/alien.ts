/** Parts of a database that no ledger has, found before one of its rows is read. */
import { DatabaseSync } from "node:sqlite";
import { MIGRATE } from "./schema.ts";

/** Selects the definitions in a file, for {@linkcode alienReason}. */
export const SCHEMA_ROWS = "SELECT type, name, sql FROM sqlite_schema";

type SchemaRow = Record<string, unknown>;

/**
 * Statements of a ledger's tables and indexes, by name: each version of sbx has made them in the same words.
 */
let own: Map<unknown, unknown> | undefined;

function ownParts(): Map<unknown, unknown> {
  if (own) return own;
  const database = new DatabaseSync(":memory:");
  try {
    database.exec(MIGRATE);
    const rows: SchemaRow[] = database.prepare(SCHEMA_ROWS).all();
    return own = new Map(rows.filter(({ type }) => type !== "view").map(({ name, sql }) => [name, sql]));
  } finally {
    database.close();
  }
}

/**
 * Says why a database is no ledger; `undefined` if it has no part that a ledger does not have. A
 * view in place of a table has other rows for each reader, or never ends, and so does a virtual
 * table, or an expression in a column, an index or a check. A ledger's own views differ between
 * versions; readers use this sbx's.
 *
 * @param rows of {@linkcode SCHEMA_ROWS}
 */
export function alienReason(rows: readonly SchemaRow[]): string | undefined {
  const parts = ownParts();
  // SQLite compares types and names without case.
  const isView = ({ type, name }: SchemaRow) => type === "view" && !parts.has(String(name).toLowerCase());
  const isTable = ({ type, name, sql }: SchemaRow) =>
    (type === "table" || type === "index") && (parts.get(name) ?? null) === sql;
  const others = rows.filter((row) => !isView(row) && !isTable(row));
  // A table that made room for a view says less than the view.
  const alien = others.find(({ type }) => type !== "table" && type !== "index") ?? others[0];
  if (!alien) return undefined;
  const { type, name } = alien;
  return parts.has(name) && (type === "table" || type === "index")
    ? `the ${type} ${name} of the database is not as in a ledger`
    : `the database has a ${type} ${name}, which no ledger has`;
}
