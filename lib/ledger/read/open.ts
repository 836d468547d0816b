/** Opens ledgers for reading, and reads their text columns. */
import { type Client, createClient, type InValue } from "@libsql/client/sqlite3";
import { pathToFileURL } from "node:url";
import { SbxError } from "../../base/error/mod.ts";
import { connect, ledgerError } from "../failure.ts";
import { BUSY_MS, isOutdated, STATEMENTS } from "../schema.ts";
import { CREATE_TEMP_VIEWS } from "../views.ts";
import { copyLedger } from "../copy.ts";

/** Opens or creates a database file. @throws {SbxError} `ledger.unavailable` */
export function openDatabase(path: string): Client {
  return connect(path, () => createClient({ url: pathToFileURL(path).href, timeout: BUSY_MS }));
}

/**
 * Opens a ledger for reading. One of an older version gets the current views for this connection only, so that its file
 * stays as it is. One that the database cannot lock, in a folder that this user may not write to, is read from a copy.
 *
 * @throws {SbxError} `ledger.not_found`, `ledger.version.conflict`, `ledger.unavailable`
 * @throws the database's error if it is damaged
 */
export async function openLedger(path: string): Promise<Client> {
  requireFile(path);
  try {
    return await openAt(path, path);
  } catch (error) {
    if (!/^SQLITE_(READONLY|CANTOPEN)/.test((error as { code?: string }).code ?? "")) throw error;
  }
  const copy = copyLedger(path);
  try {
    const client = await openAt(copy.path, path);
    const close = client.close.bind(client);
    client.close = () => {
      close();
      copy.remove();
    };
    return client;
  } catch (error) {
    copy.remove();
    throw error;
  }
}

/** @param name path for errors */
async function openAt(path: string, name: string): Promise<Client> {
  const client = openDatabase(path);
  try {
    const { rows: [row] } = await client.execute("PRAGMA user_version");
    if (isOutdated(Number(row.user_version), name)) {
      await client.executeMultiple(`CREATE TEMP TABLE ${STATEMENTS};\n${CREATE_TEMP_VIEWS}`);
    }
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

/**
 * Opens a ledger, reads from it and closes it.
 *
 * @throws {SbxError} as {@linkcode openLedger}; `ledger.invalid`
 */
export async function withLedger<T>(path: string, read: (client: Client) => Promise<T>): Promise<T> {
  let client: Client | undefined;
  try {
    client = await openLedger(path);
    return await read(client);
  } catch (error) {
    if (error instanceof SyntaxError) throw ledgerError({ code: "SQLITE_CORRUPT", cause: error }, path);
    throw ledgerError(error, path, "read");
  } finally {
    client?.close();
  }
}

function requireFile(path: string): void {
  try {
    if (Deno.statSync(path).isFile) return;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw ledgerError(error, path, "read");
  }
  throw new SbxError("ledger.not_found", `there is no ledger at ${path}`, {
    hint: "a session has a ledger from its first boot on",
  });
}

// Reads text columns as bytes and decodes them here: the database's library ends the process if a damaged
// column is not UTF-8.

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
