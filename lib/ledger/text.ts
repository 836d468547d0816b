/**
 * Text columns are read as bytes and decoded here: the database's own library ends the process when a damaged
 * column is no UTF-8.
 */
import type { Client, InValue } from "@libsql/client/sqlite3";

/** A row of text columns; a byte that is no UTF-8 reads as U+FFFD. */
export type TextRow = Record<string, string | null>;

const decoder = new TextDecoder();

/** Runs `SELECT <columns> <rest>` on columns, also `table.column`, that hold text or NULL; a number reads as its digits. */
export async function selectText(
  client: Client,
  columns: readonly string[],
  rest: string,
  args: InValue[] = [],
): Promise<TextRow[]> {
  const names = columns.map((column) => column.slice(column.indexOf(".") + 1));
  const list = columns.map((column, at) => `CAST(${column} AS BLOB) AS ${names[at]}`).join(", ");
  const { rows } = await client.execute({ sql: `SELECT ${list} ${rest}`, args });
  return rows.map((row) =>
    Object.fromEntries(names.map((column) => {
      const value = row[column];
      return [column, value === null ? null : decoder.decode(value as ArrayBuffer)];
    }))
  );
}
