/**
 * The connection through which a ledger is written. It keeps its statements: making one of a hundred rows takes as
 * long as running it, and the client that everything else reads with makes each anew.
 */
import Database from "libsql";
import type { Chain, Column } from "./chain.ts";
import { connecting } from "./failure.ts";
import { GENESIS, type Insert, insertSql, PAGE_BYTES, PRAGMAS, SCHEMA } from "./schema.ts";
import type { ChainHeads } from "./seal.ts";

/** Rows of one statement; what is left over goes row by row. */
const CHUNK_ROWS = 100;
/** A statement holds on to the rows that it wrote last: those of a batch with more characters are not kept. */
const KEPT_CHARS = 1024 * 1024;

/** Most pages that SQLite has. */
const PAGES_MAX = 4_294_967_294;

function limitPragma(maxBytes?: number): string {
  return `PRAGMA max_page_count = ${maxBytes ? Math.ceil(maxBytes / PAGE_BYTES) : PAGES_MAX};`;
}

/** Writes batches, each as a whole or not at all. */
export class Writer {
  readonly #path: string;
  /** the pragma that sets it */
  #limit: string;
  #database?: Database.Database;
  readonly #chunks = new Map<Insert, Database.Statement>();
  readonly #singles = new Map<Insert, Database.Statement>();

  /** @param maxBytes size at which the ledger counts as full; default: what the disk holds */
  constructor(path: string, maxBytes?: number) {
    this.#path = path;
    this.#limit = limitPragma(maxBytes);
  }

  /** Makes the schema where there is none; answers whose ledger it is, and where its chains end. */
  open(sessionId: string): { sessionId: string; heads: ChainHeads } {
    const database = this.#connection();
    database.exec(SCHEMA);
    database.prepare("INSERT OR IGNORE INTO ledger_info VALUES (1, ?)").run(sessionId);
    const owner = first(database, "SELECT CAST(session_id AS BLOB) AS owner FROM ledger_info");
    const event = first(
      database,
      "SELECT sequence, CAST(hash AS BLOB) AS hash FROM entries ORDER BY sequence DESC LIMIT 1",
    );
    const outcome = first(
      database,
      "SELECT number, CAST(hash AS BLOB) AS hash FROM outcomes ORDER BY number DESC LIMIT 1",
    );
    return {
      sessionId: String(owner?.owner),
      heads: {
        events: Number(event?.sequence ?? 0),
        head_hash: String(event?.hash ?? GENESIS),
        outcomes: Number(outcome?.number ?? 0),
        outcome_hash: String(outcome?.hash ?? GENESIS),
      },
    };
  }

  /** @throws what the database throws; nothing of the batch is written then, and the next attempt gets a new connection */
  write({ inserts, size }: Chain): void {
    try {
      const database = this.#connection();
      database.exec("BEGIN IMMEDIATE");
      for (const [insert, values] of inserts) this.#insert(database, insert, values, size <= KEPT_CHARS);
      database.exec("COMMIT");
    } catch (error) {
      this.#disconnect();
      throw error;
    }
  }

  /** Gives it another limit; one below the size that it has stops it there. */
  limit(maxBytes?: number): void {
    this.#limit = limitPragma(maxBytes);
    this.#database?.exec(this.#limit);
  }

  /** Folds the log into the file; answers whether all of it is there: a reader can be in the way. */
  fold(): boolean {
    return first(this.#connection(), "PRAGMA wal_checkpoint(TRUNCATE)")?.busy === 0;
  }

  close(): void {
    this.#chunks.clear();
    this.#singles.clear();
    this.#database?.close();
    this.#database = undefined;
  }

  #insert(database: Database.Database, insert: Insert, values: Column[], keep: boolean): void {
    const width = insert.columns.length;
    let at = 0;
    for (const [rows, kept] of [[CHUNK_ROWS, this.#chunks], [1, this.#singles]] as const) {
      const count = rows * width;
      if (at + count > values.length) continue;
      const statement = keep && kept.get(insert) || database.prepare(insertSql(insert, rows));
      if (keep) kept.set(insert, statement);
      for (; at + count <= values.length; at += count) statement.run(values.slice(at, at + count));
    }
  }

  #connection(): Database.Database {
    if (this.#database) return this.#database;
    const database = connecting(this.#path, () => new Database(this.#path));
    database.exec(PRAGMAS + this.#limit);
    return this.#database = database;
  }

  /** A statement that failed can leave its connection unable to commit. */
  #disconnect(): void {
    try {
      this.#database?.exec("ROLLBACK");
    } catch {
      // It was not in a transaction.
    }
    this.close();
  }
}

function first(database: Database.Database, sql: string): Record<string, unknown> | undefined {
  return database.prepare(sql).get() as Record<string, unknown> | undefined;
}
