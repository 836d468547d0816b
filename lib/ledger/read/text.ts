/**
 * Reads text columns as bytes and decodes them here: the database's library ends the process if a damaged column is not
 * UTF-8.
 */
import type { Client, InValue } from "@libsql/client/sqlite3";

/** Row of text columns; bytes that are not UTF-8 become U+FFFD. */
export type TextRow = Record<string, string | null>;

const decoder = new TextDecoder();

/**
 * Runs `SELECT <columns> <rest>`.
 *
 * @param columns columns with text, numbers or NULL, also `table.column`; numbers become decimal text
 */
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

/** Parses JSON of a column that may be damaged. */
export function parseJson<T>(text: string | null): T | undefined {
  try {
    return JSON.parse(text!) as T;
  } catch {
    return undefined;
  }
}
