import { setImmediate } from "node:timers";
import type { Client, InStatement, Row } from "@libsql/client/sqlite3";
import { SbxError } from "../error/mod.ts";
import { Batch } from "./batch.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
import { ledgerError, openDatabase } from "./open.ts";
import { GENESIS, PAGE_BYTES, PRAGMAS, SCHEMA } from "./schema.ts";
import { removeSeal, writeSeal } from "./seal.ts";

/** The longest that an event waits for the database, in milliseconds (contracts.md §12). */
export const FLUSH_MS = 50;

/** How a ledger is opened. */
export interface LedgerOptions {
  sessionId: string;
  /** size in bytes at which the ledger counts as full; default: what the disk holds */
  maxBytes?: number;
  /** called when a flush fails, once until one succeeds again: the caller then fails closed */
  onError?(error: SbxError): void;
}

/**
 * The writer of one session's ledger (contracts.md §12). `append` fixes order, sequence and hash at once and in
 * memory; the rows follow in batches. After a failed flush nothing is lost and nothing more is taken: `append`
 * throws until a `flush` succeeds.
 */
export class Ledger {
  readonly #path: string;
  readonly #client: Client;
  readonly #options: LedgerOptions;
  readonly #batches: Batch[] = [];
  #sequence: number;
  #hash: string;
  #outcomes: number;
  #outcomeHash: string;
  #timer?: ReturnType<typeof setTimeout>;
  #writing?: Promise<void>;
  #failure?: SbxError;
  #closed = false;

  private constructor(path: string, client: Client, heads: Row, options: LedgerOptions) {
    this.#path = path;
    this.#client = client;
    this.#sequence = Number(heads.sequence ?? 0);
    this.#hash = String(heads.hash ?? GENESIS);
    this.#outcomes = Number(heads.outcomes ?? 0);
    this.#outcomeHash = String(heads.outcome_hash ?? GENESIS);
    this.#options = options;
  }

  /**
   * Opens or creates a ledger; a chain that is there goes on.
   *
   * @throws SbxError `ledger.conflict` when it belongs to another session, `ledger.invalid` when it is damaged
   */
  static async open(path: string, options: LedgerOptions): Promise<Ledger> {
    const client = openDatabase(path, { create: true });
    try {
      await client.executeMultiple(pragmas(options) + SCHEMA);
      const [, head] = await client.batch([
        { sql: "INSERT OR IGNORE INTO ledger_info VALUES (1, ?)", args: [options.sessionId] },
        `SELECT session_id, sequence, hash, outcomes, outcome_hash FROM ledger_info
           LEFT JOIN (SELECT sequence, hash FROM security_events ORDER BY sequence DESC LIMIT 1)
           LEFT JOIN (SELECT number AS outcomes, hash AS outcome_hash FROM outcomes ORDER BY number DESC LIMIT 1)`,
      ], "write");
      const [heads] = head.rows;
      const { session_id } = heads;
      if (session_id !== options.sessionId) {
        throw new SbxError("ledger.conflict", `the ledger ${path} belongs to session ${session_id}`);
      }
      removeSeal(path);
      return new Ledger(path, client, heads, options);
    } catch (error) {
      client.close();
      throw ledgerError(error, path);
    }
  }

  /** Sequence of the last event that was appended, 0 before the first. */
  get sequence(): number {
    return this.#sequence;
  }

  /** Hash of the last event that was appended: who keeps it can tell later that no event was cut off. */
  get headHash(): string {
    return this.#hash;
  }

  /**
   * Appends an event and what was said of it; sets its `common.sequence`, which is answered.
   *
   * @throws SbxError `ledger.unavailable` when earlier rows could not be written: fail closed
   */
  append(entry: LedgerEntry): number {
    const batch = this.#openBatch();
    entry.event.common.sequence = ++this.#sequence;
    this.#hash = batch.addEvent(entry, this.#hash);
    this.#schedule(batch.full);
    return this.#sequence;
  }

  /** Adds how an event ended; an event ends once. @throws SbxError `ledger.unavailable` */
  end(outcome: LedgerOutcome): void {
    const batch = this.#openBatch();
    this.#outcomeHash = batch.addOutcome({ ...outcome, number: ++this.#outcomes }, this.#outcomeHash);
    this.#schedule(batch.full);
  }

  /** Adds rows that belong to no new event: an approval, findings of a later hunt. */
  add(
    { findings = [], rows = [] }: { findings?: readonly LedgerFinding[]; rows?: readonly LedgerRow[] },
  ): void {
    const batch = this.#openBatch();
    for (const finding of findings) batch.addFinding(finding);
    for (const row of rows) batch.addRow(row);
    this.#schedule(batch.full);
  }

  /** Writes what was appended until now. @throws SbxError `ledger.unavailable` */
  async flush(): Promise<void> {
    await this.#writing;
    await this.#write();
    if (this.#failure) throw this.#failure;
  }

  /** Flushes, seals the file and closes it. @throws SbxError `ledger.unavailable` when the last rows were lost */
  async close(): Promise<void> {
    if (this.#closed) return;
    try {
      await this.flush();
      await this.#client.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    } finally {
      this.#closed = true;
      clearTimeout(this.#timer);
      this.#client.close();
    }
    await writeSeal(this.#path, {
      events: this.#sequence,
      head_hash: this.#hash,
      outcomes: this.#outcomes,
      outcome_hash: this.#outcomeHash,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #openBatch(): Batch {
    if (this.#closed) throw new SbxError("ledger.unavailable", `the ledger ${this.#path} is closed`);
    if (this.#failure) throw this.#failure;
    const last = this.#batches.at(-1);
    if (last && !last.full) return last;
    const batch = new Batch();
    this.#batches.push(batch);
    return batch;
  }

  #schedule(now: boolean): void {
    if (now && !this.#writing) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#write();
    } else this.#timer ??= setTimeout(() => this.#write(), FLUSH_MS);
  }

  #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return this.#writing ??= this.#drain().finally(() => this.#writing = undefined);
  }

  async #drain(): Promise<void> {
    while (this.#batches.length && !this.#closed) {
      // The database works on this thread: between batches everything else gets its turn.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const batch = this.#batches.shift()!;
      try {
        await this.#send(batch.statements());
        this.#failure = undefined;
      } catch (error) {
        this.#batches.unshift(batch);
        this.#fail(error);
        await this.#reconnect();
        return;
      }
    }
  }

  /** One statement is a transaction by itself. */
  async #send(statements: InStatement[]): Promise<void> {
    if (statements.length === 1) await this.#client.execute(statements[0]);
    else await this.#client.batch(statements, "write");
  }

  /** A statement that failed can leave its connection unable to commit: the next attempt gets a new one. */
  async #reconnect(): Promise<void> {
    await this.#client.reconnect();
    // What fails here fails again at the next attempt, and is reported then.
    await this.#client.executeMultiple(pragmas(this.#options)).catch(() => {});
  }

  #fail(error: unknown): void {
    const first = !this.#failure;
    const known = ledgerError(error, this.#path);
    this.#failure = known.code === "ledger.unavailable"
      ? known
      : new SbxError("ledger.unavailable", `the ledger ${this.#path} cannot be written`, { cause: error });
    if (first) this.#options.onError?.(this.#failure);
  }
}

function pragmas({ maxBytes }: LedgerOptions): string {
  return PRAGMAS + (maxBytes ? `PRAGMA max_page_count = ${Math.ceil(maxBytes / PAGE_BYTES)};` : "");
}
