/** Opens ledgers for reading, and reads their text columns. */
import { SbxError } from "../../base/error/mod.ts";
import { type Client, Database, type SqlValue } from "../database.ts";
import { connect, ledgerError } from "../failure.ts";
import { CREATE_TEMP_VIEWS, isOutdated, STATEMENTS } from "../schema.ts";
import { alienReason, SCHEMA_ROWS } from "../alien.ts";
import { copyLedger } from "../copy.ts";

/** Opens or creates a database file. @throws {SbxError} `ledger.unavailable` */
export function openDatabase(path: string): Client {
  return connect(path, () => new Database(path));
}

/** Gets the reason why a database is not a ledger. */
type OnAlien = (reason: string) => void;

/**
 * Opens a ledger for reading. One of an older version gets the current views for this connection only, so
 * that its file stays as it is. One that the database cannot lock, in a folder that this user may not
 * write to, is read from a copy.
 *
 * @param onAlien gets the reason instead of the error `ledger.invalid` of a database with tables, views
 * or triggers that no ledger has
 * @throws {SbxError} `ledger.not_found`, `ledger.version.conflict`, `ledger.unavailable`, `ledger.invalid`
 * @throws the database's error if it is damaged
 */
export async function openLedger(path: string, onAlien?: OnAlien): Promise<Client> {
  requireFile(path);
  try {
    return await openAt(path, path, onAlien);
  } catch (error) {
    if (!/^SQLITE_(READONLY|CANTOPEN)/.test((error as { code?: string }).code ?? "")) throw error;
  }
  const copy = copyLedger(path);
  try {
    const client = await openAt(copy.path, path, onAlien);
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
async function openAt(path: string, name: string, onAlien: OnAlien = refuseAlien(name)): Promise<Client> {
  const client = openDatabase(path);
  try {
    const { rows: [row] } = await client.execute("PRAGMA user_version");
    // First: a newer ledger has parts that this version does not know.
    const isOld = isOutdated(Number(row.user_version), name);
    const alien = alienReason((await client.execute(SCHEMA_ROWS)).rows);
    if (alien !== undefined) onAlien(alien);
    if (isOld) {
      await client.executeMultiple(`CREATE TEMP TABLE ${STATEMENTS};\n${CREATE_TEMP_VIEWS}`);
    }
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

/** Refuses a database that is not a ledger: reading it may never end. */
function refuseAlien(path: string): OnAlien {
  return (reason) => {
    throw new SbxError("ledger.invalid", `the ledger ${path} is damaged, or not a ledger: ${reason}`, {
      hint: "take a copy of the record that is not changed",
    });
  };
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
    throw readError(error, path);
  } finally {
    client?.close();
  }
}

/** Converts an error of reading a ledger: JSON that does not parse is damage, too. */
export function readError(error: unknown, path: string): SbxError {
  if (error instanceof SyntaxError) return ledgerError({ code: "SQLITE_CORRUPT", cause: error }, path);
  return ledgerError(error, path, "read");
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

// Reads text columns as bytes and decodes them here: the database's library cuts text at a NUL.

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
  args: SqlValue[] = [],
): Promise<TextRow[]> {
  const names = columns.map(nameOf);
  const list = columns.map((column, at) => `CAST(${column} AS BLOB) AS ${names[at]}`).join(", ");
  const { rows } = await client.execute({ sql: `SELECT ${list} ${rest}`, args });
  return rows.map((row) =>
    Object.fromEntries(names.map((column) => {
      const value = row[column];
      return [column, value === null ? null : decoder.decode(value as Uint8Array)];
    }))
  );
}

/** Name of a column without its table. */
function nameOf(column: string): string {
  return column.slice(column.indexOf(".") + 1);
}

/** Fields of rows, one after the other in one text. */
export interface TextPage {
  text: string;
  /** characters of each field, row by row; -1: NULL */
  lengths: number[];
}

/**
 * As {@linkcode selectText}, for many rows: they pass the database's library as two values, since taking a
 * value from it costs more than hashing an event.
 */
export async function selectPage(
  client: Client,
  columns: readonly string[],
  rest: string,
  args: SqlValue[] = [],
): Promise<TextRow[]> {
  const page = await selectTexts(client, columns, rest, args);
  const names = columns.map(nameOf);
  // Copies of one row share its shape, and filling them is four times as fast as adding their columns.
  const empty: TextRow = Object.fromEntries(names.map((name) => [name, null]));
  const rows: TextRow[] = [];
  let from = 0;
  for (let at = 0; at < page.lengths.length; at += names.length) {
    const row = { ...empty };
    for (let column = 0; column < names.length; column++) {
      const length = page.lengths[at + column];
      if (length >= 0) row[names[column]] = page.text.slice(from, from += length);
    }
    rows.push(row);
  }
  return rows;
}

/** As {@linkcode selectPage}, in one text. */
export async function selectTexts(
  client: Client,
  columns: readonly string[],
  rest: string,
  args: SqlValue[] = [],
): Promise<TextPage> {
  const sizes = columns.map((column) => `coalesce(octet_length(${column}), -1)`).join(", ");
  const { rows: [page] } = await client.execute({
    sql:
      `SELECT CAST(group_concat(lengths, ',') AS BLOB) AS lengths, CAST(group_concat(bytes, '') AS BLOB) AS bytes
            FROM (SELECT concat_ws(',', ${sizes}) AS lengths, concat(${
        columns.join(", ")
      }) AS bytes ${rest})`,
    args,
  });
  if (page.lengths === null) return { text: "", lengths: [] };
  const decoded = decode(numbersOf(page.lengths as Uint8Array), page.bytes as Uint8Array);
  if (decoded) return decoded;
  // A database whose lengths differ from its bytes is damaged, or written in another encoding.
  const fields = (await selectText(client, columns, rest, args)).flatMap((row) => Object.values(row));
  return { text: fields.join(""), lengths: fields.map((field) => field?.length ?? -1) };
}

const [COMMA, MINUS, ZERO] = [44, 45, 48];

/** Parses whole numbers with commas between them. */
function numbersOf(text: Uint8Array): number[] {
  const numbers: number[] = [];
  let [number, sign] = [0, 1];
  for (let at = 0; at < text.length; at++) {
    const unit = text[at];
    if (unit === COMMA) {
      numbers.push(sign * number);
      number = 0;
      sign = 1;
    } else if (unit === MINUS) sign = -1;
    else number = 10 * number + unit - ZERO;
  }
  numbers.push(sign * number);
  return numbers;
}

/** Decodes fields of lengths in `bytes`. @returns `undefined`: they have another length */
function decode(lengths: number[], bytes: Uint8Array): TextPage | undefined {
  let total = 0;
  for (const length of lengths) if (length > 0) total += length;
  if (total !== bytes.length) return undefined;
  const text = decoder.decode(bytes);
  // No byte is more than one character of a string: as many of them as bytes are one for each.
  if (text.length === bytes.length) return { text, lengths };
  const fields: string[] = [];
  let from = 0;
  const inCharacters = lengths.map((length) => {
    if (length < 0) return length;
    const field = decoder.decode(bytes.subarray(from, from += length));
    fields.push(field);
    return field.length;
  });
  return { text: fields.join(""), lengths: inCharacters };
}

/** Parses JSON of a column that may be damaged. */
export function parseJson<T>(text: string | null): T | undefined {
  try {
    return JSON.parse(text!) as T;
  } catch {
    return undefined;
  }
}
