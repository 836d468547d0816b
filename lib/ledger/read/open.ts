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

/** Fields of rows in one text. */
export interface TextPage {
  text: string;
  /** start and end of each field, row by row; both -1: NULL */
  places: number[];
}

/**
 * As {@linkcode selectText}, for many rows: they pass the database's library as one value, since taking a
 * value from it costs more than hashing an event.
 */
export async function selectPage(
  client: Client,
  columns: readonly string[],
  rest: string,
  args: SqlValue[] = [],
): Promise<TextRow[]> {
  const { text, places } = await selectTexts(client, columns, rest, args);
  const names = columns.map(nameOf);
  // Copies of one row share its shape, and filling them is four times as fast as adding their columns.
  const empty: TextRow = Object.fromEntries(names.map((name) => [name, null]));
  const rows: TextRow[] = [];
  for (let at = 0; at < places.length;) {
    const row = { ...empty };
    for (let column = 0; column < names.length; column++, at += 2) {
      if (places[at] >= 0) row[names[column]] = text.slice(places[at], places[at + 1]);
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
  // Each row is the lengths of its fields and then the fields. A second value for the lengths costs a fifth.
  const sizes = columns.map((column) => `coalesce(octet_length(${column}), -1), ','`).join(", ");
  const { rows: [{ page }] } = await client.execute({
    sql: `SELECT CAST(group_concat(fields, '') AS BLOB) AS page
            FROM (SELECT concat(${sizes}, ${columns.join(", ")}) AS fields ${rest})`,
    args,
  });
  if (page === null) return { text: "", places: [] };
  const places = placesIn(page as Uint8Array, columns.length);
  if (places) return decode(page as Uint8Array, places);
  // A database whose lengths differ from its bytes is damaged, or written in another encoding.
  return pageOf((await selectText(client, columns, rest, args)).flatMap((row) => Object.values(row)));
}

const [COMMA, MINUS, ZERO, NINE] = [44, 45, 48, 57];

/** Finds the fields of a page of rows, in `bytes`. @returns `undefined`: lengths and fields do not fit */
function placesIn(page: Uint8Array, columns: number): number[] | undefined {
  const places: number[] = [];
  for (let at = 0; at < page.length;) {
    const first = places.length;
    for (let column = 0; column < columns; column++) {
      const isNull = page[at] === MINUS;
      if (isNull) at++;
      let length = 0;
      for (; page[at] >= ZERO && page[at] <= NINE; at++) length = 10 * length + page[at] - ZERO;
      if (page[at++] !== COMMA) return undefined;
      places.push(isNull ? -1 : length, -1);
    }
    for (let field = first; field < places.length; field += 2) {
      if (places[field] < 0) continue;
      const length = places[field];
      places[field] = at;
      places[field + 1] = at += length;
    }
    if (at > page.length) return undefined;
  }
  return places;
}

function decode(page: Uint8Array, places: number[]): TextPage {
  const text = decoder.decode(page);
  // No byte is more than one character of a string: as many of them as bytes are one for each.
  if (text.length === page.length) return { text, places };
  const fields: (string | null)[] = [];
  for (let at = 0; at < places.length; at += 2) {
    fields.push(places[at] < 0 ? null : decoder.decode(page.subarray(places[at], places[at + 1])));
  }
  return pageOf(fields);
}

function pageOf(fields: readonly (string | null)[]): TextPage {
  const places: number[] = [];
  let at = 0;
  for (const field of fields) {
    if (field === null) places.push(-1, -1);
    else places.push(at, at += field.length);
  }
  return { text: fields.join(""), places };
}

/** Parses JSON of a column that may be damaged. */
export function parseJson<T>(text: string | null): T | undefined {
  try {
    return JSON.parse(text!) as T;
  } catch {
    return undefined;
  }
}
