/**
 * SQL queries of one ledger (docs/guides/queries.md), run in the process of the person who asks.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { copyLedger, type LedgerCopy } from "../copy.ts";
import { alienReason, SCHEMA_ROWS } from "../alien.ts";
import { BUSY_MS, CREATE_TEMP_VIEWS, isOutdated } from "../schema.ts";

/** Most rows of an answer (docs/design/contracts/12-ledger.md §12). */
export const SQL_ROWS_MAX = 100_000;

/** Columns by name, and rows of their values; `truncated` where there were more rows. */
export interface SqlAnswer {
  columns: string[];
  rows: SqlValue[][];
  truncated: boolean;
}

/** Whole numbers beyond 2^53 are text, bytes are hex digits. */
export type SqlValue = string | number | null;

/** Operations that a statement may use (SQLITE_READ, SQLITE_SELECT, SQLITE_FUNCTION, SQLITE_RECURSIVE). */
const ALLOWED = new Set([20, 21, 31, 33]);
const [GRANTED, DENIED] = [0, 1];
/** Statements that only read; VACUUM INTO writes a file regardless of the authorizer. */
const READS = /^\s*(?:SELECT|WITH|VALUES|EXPLAIN)\b/i;
/** Text that may hold a semicolon that ends no statement. */
const QUOTED = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;

/**
 * Runs one read-only statement. The views are defined by this sbx, not by the file.
 *
 * @throws {SbxError} `sql.invalid`, `ledger.version.conflict`, `ledger.unavailable`
 */
export function askLedger(path: string, sql: string): SqlAnswer {
  const bare = sql.replaceAll(QUOTED, " ");
  if (/;\s*[^\s;]/.test(bare)) throw refused("there is more than one statement", "run one at a time");
  if (!READS.test(bare)) throw refused("only SELECT, WITH, VALUES and EXPLAIN are possible");
  const { database, copy } = openReadable(path);
  try {
    return answerOf(prepare(database, sql));
  } finally {
    database.close();
    copy?.remove();
  }
}

/** Opens a ledger, or a copy of it where the database cannot lock it. */
function openReadable(path: string): { database: DatabaseSync; copy?: LedgerCopy } {
  try {
    return { database: open(path) };
  } catch (error) {
    const { message = "" } = (error as { cause?: Error }).cause ?? {};
    if (!/readonly database|unable to open/.test(message)) throw error;
  }
  const copy = copyLedger(path);
  try {
    return { database: open(copy.path, path), copy };
  } catch (error) {
    copy.remove();
    throw error;
  }
}

/** @param name path for errors */
function open(path: string, name = path): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    // A connection for reading alone leaves its log beside a ledger that is closed.
    // A missing file is not created.
    Deno.statSync(path);
    // SQLite takes a path that begins with file: for a URI of another file.
    database = new DatabaseSync(resolve(path), { timeout: BUSY_MS, allowExtension: false });
    isOutdated(Number(database.prepare("PRAGMA user_version").get()?.user_version), name);
    const alien = alienReason(database.prepare(SCHEMA_ROWS).all());
    if (alien !== undefined) throw new Error(alien);
    database.exec(`${CREATE_TEMP_VIEWS}; PRAGMA query_only = ON`);
    database.setAuthorizer((action) => ALLOWED.has(action) ? GRANTED : DENIED);
    return database;
  } catch (cause) {
    database?.close();
    if (cause instanceof SbxError) throw cause;
    throw new SbxError(
      "ledger.unavailable",
      `the ledger ${name} cannot be read: ${(cause as Error).message}`,
      {
        cause,
        hint: "sbx verify NAME says whether it is damaged",
      },
    );
  }
}

function prepare(database: DatabaseSync, sql: string): StatementSync {
  try {
    const statement = database.prepare(sql);
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    return statement;
  } catch (cause) {
    throw refused((cause as Error).message);
  }
}

function answerOf(statement: StatementSync): SqlAnswer {
  const columns = statement.columns().map(({ name }) => name);
  try {
    const first = Iterator.from(statement.iterate() as Iterable<unknown[]>).take(SQL_ROWS_MAX + 1).toArray();
    const truncated = first.length > SQL_ROWS_MAX;
    // Deno's iterator ends at an error as if that were the end of the rows; `all` throws it.
    const rows = truncated ? first.slice(0, SQL_ROWS_MAX) : statement.all() as unknown as unknown[][];
    return { columns, rows: rows.map((row) => row.map(valueOf)), truncated };
  } catch (cause) {
    throw refused((cause as Error).message);
  }
}

function valueOf(value: unknown): SqlValue {
  if (value instanceof Uint8Array) return value.toHex();
  if (typeof value !== "bigint") return value as SqlValue;
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}

function refused(reason: string, hint = "docs/guides/queries.md has the views and their columns"): SbxError {
  return new SbxError("sql.invalid", `the statement cannot be run: ${reason}`, { hint });
}
