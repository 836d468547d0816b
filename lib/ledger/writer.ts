/**
 * The writing connection of a ledger. It reuses its statements: preparing an insert of a hundred
 * rows takes as long as running it.
 */
import { type Chain, type ChainHeads, type Column, journalLink } from "./chain.ts";
import { Database, type Row, type Statement } from "./database.ts";
import { connect, type PageLimit, pageLimit } from "./failure.ts";
import {
  BOUND_VERSION,
  GENESIS,
  type Insert,
  INSERTS,
  insertSql,
  isOutdated,
  type JournalKind,
  type LastEvent,
  MIGRATE,
  PRAGMAS,
} from "./schema.ts";

/** Rows of one statement; the remaining rows are inserted one by one. */
const CHUNK_ROWS = 100;
/**
 * A statement keeps the values that it wrote last, so that batches with more
 * characters get statements of their own.
 */
const REUSE_CHARS = 1024 * 1024;

function limitPragma(pages: number): string {
  return `PRAGMA max_page_count = ${pages};`;
}

/** Writes batches, each completely or not at all. */
export class Writer {
  readonly #path: string;
  #limit: PageLimit;
  #database?: Database;
  readonly #chunks = new Map<Insert, Statement>();
  readonly #singles = new Map<Insert, Statement>();

  /** @param maxBytes size in `bytes` at which the ledger is full; default: no limit but the disk */
  constructor(path: string, maxBytes?: number) {
    this.#path = path;
    this.#limit = pageLimit(maxBytes);
  }

  /**
   * Creates or migrates the schema.
   *
   * @returns the session that the ledger belongs to, and the heads of its chains
   * @throws {SbxError} `ledger.version.conflict`
   */
  open(sessionId: string): { sessionId: string; heads: ChainHeads } {
    const database = this.#connection();
    const version = this.#userVersion();
    if (isOutdated(version, this.#path)) {
      this.#transact(database, () => {
        database.exec(MIGRATE);
        if (version < BOUND_VERSION) bindExisting(database);
      });
    }
    database.prepare("INSERT OR IGNORE INTO ledger_info VALUES (1, ?)").run([sessionId]);
    const owner = first(database, "SELECT CAST(session_id AS BLOB) AS owner FROM ledger_info");
    const event = lastEvent(database);
    const outcome = first(
      database,
      "SELECT number, CAST(hash AS BLOB) AS hash FROM outcomes ORDER BY number DESC LIMIT 1",
    );
    const journal = lastOfJournal(database);
    return {
      sessionId: textOf(owner?.owner),
      heads: {
        events: event?.sequence ?? 0,
        head_hash: event?.hash ?? GENESIS,
        outcomes: Number(outcome?.number ?? 0),
        outcome_hash: textOf(outcome?.hash ?? GENESIS),
        journal: journal.number,
        journal_hash: journal.link,
      },
    };
  }

  /**
   * Writes a batch, from the reserve if there is no other room: its rows were accepted,
   * and their effects have happened.
   *
   * @throws the database's error: nothing of the batch is written, and the next attempt gets a new connection
   */
  write(chain: Chain): void {
    try {
      this.#write(chain);
    } catch (error) {
      if ((error as { code?: string }).code !== "SQLITE_FULL" || this.#limit.ordinary === this.#limit.all) {
        throw error;
      }
      this.#connection().exec(limitPragma(this.#limit.all));
      this.#write(chain);
      this.#database?.exec(limitPragma(this.#limit.ordinary));
    }
  }

  /** True once rows are in the reserve, until the limit is raised. */
  isFull(): boolean {
    return Number(first(this.#connection(), "PRAGMA page_count")?.page_count) > this.#limit.ordinary;
  }

  #write({ inserts, size }: Chain): void {
    try {
      const database = this.#connection();
      this.#transact(database, () => {
        for (const [insert, values] of inserts) this.#insert(database, insert, values, size <= REUSE_CHARS);
      });
    } catch (error) {
      this.#disconnect();
      throw error;
    }
  }

  /** Changes the size limit; below the current size, the ledger is full at once. */
  limit(maxBytes?: number): void {
    this.#limit = pageLimit(maxBytes);
    this.#database?.exec(limitPragma(this.#limit.ordinary));
  }

  /** The last event that was written. */
  last(): LastEvent | undefined {
    const event = lastEvent(this.#connection());
    return event && { id: event.id, hash: event.hash };
  }

  /** Folds the log into the file. @returns false if a reader prevented a part of it */
  fold(): boolean {
    return first(this.#connection(), "PRAGMA wal_checkpoint(TRUNCATE)")?.busy === 0;
  }

  close(): void {
    this.#chunks.clear();
    this.#singles.clear();
    this.#database?.close();
    this.#database = undefined;
  }

  #transact(database: Database, run: () => void): void {
    database.prepare("BEGIN IMMEDIATE").run();
    run();
    database.prepare("COMMIT").run();
  }

  #insert(database: Database, insert: Insert, values: Column[], reuse: boolean): void {
    const width = insert.columns.length;
    let at = 0;
    for (const [rows, statements] of [[CHUNK_ROWS, this.#chunks], [1, this.#singles]] as const) {
      const count = rows * width;
      if (at + count > values.length) continue;
      const statement = reuse && statements.get(insert) || database.prepare(insertSql(insert, rows));
      if (reuse) statements.set(insert, statement);
      for (; at + count <= values.length; at += count) statement.run(values.slice(at, at + count));
    }
  }

  #userVersion(): number {
    return Number(first(this.#connection(), "PRAGMA user_version")?.user_version);
  }

  #connection(): Database {
    if (this.#database) return this.#database;
    const database = connect(this.#path, () => new Database(this.#path));
    try {
      for (const pragma of [...PRAGMAS, limitPragma(this.#limit.ordinary)]) database.prepare(pragma).all();
    } catch (error) {
      database.close();
      throw error;
    }
    return this.#database = database;
  }

  /** Closes the connection: a failed statement can leave it unable to commit. */
  #disconnect(): void {
    try {
      this.#database?.exec("ROLLBACK");
    } catch {
      // No transaction was open.
    }
    this.close();
  }
}

/** The rows that the journal of a migrated ledger begins with. */
const EXISTING: [JournalKind, string][] = [
  [
    "finding",
    "SELECT CAST(finding_id AS BLOB) AS id, CAST(hash AS BLOB) AS hash FROM findings ORDER BY rowid",
  ],
  ["approval", "SELECT CAST(ask_id AS BLOB) AS id, CAST(hash AS BLOB) AS hash FROM approvals ORDER BY rowid"],
  ["body", "SELECT CAST(hash AS BLOB) AS id, CAST(hash AS BLOB) AS hash FROM body_blobs ORDER BY rowid"],
];

const decoder = new TextDecoder();

/** Binds the findings, answers and bodies of an older ledger as they are found. */
function bindExisting(database: Database): void {
  const insert = database.prepare(insertSql(INSERTS.journal, 1));
  let { number, link } = lastOfJournal(database);
  for (const [kind, select] of EXISTING) {
    for (const row of database.prepare(select).all()) {
      const [id, hash] = [row.id, row.hash].map(textOf);
      const previous = link;
      link = journalLink(kind, id, hash, previous);
      insert.run([++number, kind, id, hash, previous, link]);
    }
  }
}

function lastEvent(database: Database): LastEvent & { sequence: number } | undefined {
  const row = first(
    database,
    `SELECT sequence, CAST(event_id AS BLOB) AS id,
       CAST(iif(sequence > (SELECT after_sequence FROM ledger_bound), coalesce(record_hash, hash), hash) AS BLOB) AS hash
     FROM entries ORDER BY sequence DESC LIMIT 1`,
  );
  return row && { sequence: Number(row.sequence), id: textOf(row.id), hash: textOf(row.hash) };
}

function lastOfJournal(database: Database): { number: number; link: string } {
  const last = first(
    database,
    "SELECT number, CAST(link AS BLOB) AS link FROM journal ORDER BY number DESC LIMIT 1",
  );
  return { number: Number(last?.number ?? 0), link: textOf(last?.link ?? GENESIS) };
}

function first(database: Database, sql: string): Row | undefined {
  return database.prepare(sql).get();
}

/** Text of a column that was read as a blob. */
function textOf(value: unknown): string {
  return value instanceof Uint8Array ? decoder.decode(value) : String(value);
}
