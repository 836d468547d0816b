/**
 * Connections to SQLite files: Deno's own SQLite, with the error codes that the rest of the ledger expects.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { resolve } from "node:path";
import { BUSY_MS } from "./schema.ts";

/** A value of a column, or of a parameter. */
export type SqlValue = null | number | bigint | string | Uint8Array;
/** Columns by name: blobs are bytes; whole numbers beyond 2^53 are damage. */
export type Row = Record<string, unknown>;

/** One statement and the values of its parameters. */
export interface Query {
  sql: string;
  args: SqlValue[];
}

/** A database that readers query: a file here, or a server of libSQL. */
export interface Client {
  /** Runs one statement. @returns its rows; none for statements without */
  execute(query: string | Query): Promise<{ rows: Row[] }>;
  /** Runs statements separated by semicolons. */
  executeMultiple(sql: string): Promise<void>;
  close(): void;
}

/** A failure of the database. */
export class DatabaseError extends Error {
  override name = "DatabaseError";
  /** SQLite's name of the failure: `SQLITE_FULL`, `SQLITE_IOERR_SHMSIZE`, … */
  readonly code: string;

  constructor(cause: unknown) {
    super((cause as Error).message, { cause });
    this.code = codeOf(cause as Failure);
  }
}

/** Names of primary result codes, and of the extended one that means a full disk. */
const CODES: Record<number, string> = {
  3: "SQLITE_PERM",
  5: "SQLITE_BUSY",
  6: "SQLITE_LOCKED",
  7: "SQLITE_NOMEM",
  8: "SQLITE_READONLY",
  9: "SQLITE_INTERRUPT",
  10: "SQLITE_IOERR",
  11: "SQLITE_CORRUPT",
  13: "SQLITE_FULL",
  14: "SQLITE_CANTOPEN",
  15: "SQLITE_PROTOCOL",
  17: "SQLITE_SCHEMA",
  18: "SQLITE_TOOBIG",
  19: "SQLITE_CONSTRAINT",
  20: "SQLITE_MISMATCH",
  21: "SQLITE_MISUSE",
  26: "SQLITE_NOTADB",
  4874: "SQLITE_IOERR_SHMSIZE",
};
const PRIMARY = 0xff;
/** Result code of any other error, of functions too. */
const GENERIC = 1;

/**
 * Texts of failures that come without a number of their own: Deno gives none for
 * `exec` and for opening a file.
 */
const TEXTS: [RegExp, string][] = [
  [/^database (?:table |schema )?is locked/, "SQLITE_BUSY"],
  [/^attempt to write a readonly database/, "SQLITE_READONLY"],
  [/^disk I\/O error/, "SQLITE_IOERR"],
  [/^database disk image is malformed|^malformed (?:database schema|JSON)/, "SQLITE_CORRUPT"],
  [/^database or disk is full/, "SQLITE_FULL"],
  [/^unable to open database file/, "SQLITE_CANTOPEN"],
  [/^access permission denied/, "SQLITE_PERM"],
  [/^file is not a database/, "SQLITE_NOTADB"],
  [/^out of memory/, "SQLITE_NOMEM"],
];

/** Fields of an error of `node:sqlite`. */
interface Failure {
  code?: string;
  errcode?: number;
  message: string;
}

/** A number that no number of JavaScript can be. */
const OUT_OF_RANGE = "ERR_OUT_OF_RANGE";

function codeOf({ code, errcode, message }: Failure): string {
  // sbx writes no such numbers.
  if (code === OUT_OF_RANGE) return "SQLITE_CORRUPT";
  if (errcode !== undefined && errcode !== GENERIC) {
    return CODES[errcode] ?? CODES[errcode & PRIMARY] ?? "SQLITE_ERROR";
  }
  return TEXTS.find(([text]) => text.test(message))?.[1] ?? "SQLITE_ERROR";
}

/** A statement that is compiled once and run often. */
export class Statement {
  readonly #statement: StatementSync;

  constructor(statement: StatementSync) {
    this.#statement = statement;
  }

  /** @throws {DatabaseError} */
  run(values: readonly SqlValue[] = []): void {
    attempt(() => this.#statement.run(...values));
  }

  /** @throws {DatabaseError} */
  all(values: readonly SqlValue[] = []): Row[] {
    return attempt(() => this.#statement.all(...values)) as Row[];
  }

  /** The first row. @throws {DatabaseError} */
  get(values: readonly SqlValue[] = []): Row | undefined {
    return attempt(() => this.#statement.get(...values)) as Row | undefined;
  }
}

/** Most statements that a connection keeps compiled. */
const STATEMENTS_MAX = 16;

/** A connection to a file. Text columns end at a NUL: columns with text of others are read as blobs. */
export class Database implements Client {
  readonly #database: DatabaseSync;
  /** statements of queries, by their text: compiling one costs as much as reading ten rows */
  readonly #statements = new Map<string, Statement>();

  /** Opens or creates a file; `:memory:` stays in memory. @throws {DatabaseError} */
  constructor(path: string) {
    // SQLite takes a path that begins with file: for a URI of another file.
    const file = path === ":memory:" ? path : resolve(path);
    this.#database = attempt(() => new DatabaseSync(file, { timeout: BUSY_MS, allowExtension: false }));
  }

  /** @throws {DatabaseError} */
  prepare(sql: string): Statement {
    return new Statement(attempt(() => this.#database.prepare(sql)));
  }

  /**
   * Runs statements separated by semicolons. Failures of single statements have more exact codes.
   * @throws {DatabaseError}
   */
  exec(sql: string): void {
    attempt(() => this.#database.exec(sql));
  }

  // deno-lint-ignore require-await -- a client may be a server, too
  async execute(query: string | Query): Promise<{ rows: Row[] }> {
    const { sql, args } = typeof query === "string" ? { sql: query, args: [] } : query;
    return { rows: this.#statement(sql).all(args) };
  }

  #statement(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (!statement) {
      if (this.#statements.size === STATEMENTS_MAX) this.#statements.clear();
      this.#statements.set(sql, statement = this.prepare(sql));
    }
    return statement;
  }

  // deno-lint-ignore require-await -- as above
  async executeMultiple(sql: string): Promise<void> {
    this.exec(sql);
  }

  /** Closes the connection and its statements; again: nothing. */
  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }
}

function attempt<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    const { code } = error as Failure;
    if (code !== "ERR_SQLITE_ERROR" && code !== OUT_OF_RANGE) throw error;
    throw new DatabaseError(error);
  }
}
