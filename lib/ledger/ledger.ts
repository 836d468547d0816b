import { setImmediate } from "node:timers";
import { SbxError } from "../error/mod.ts";
import { Batch } from "./batch.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
import { ledgerError } from "./open.ts";
import { PAGE_BYTES, PRAGMAS } from "./schema.ts";
import { type ChainHeads, removeSeal, writeSeal } from "./seal.ts";
import { Writer } from "./writer.ts";

/** The longest that an event waits for the database, in milliseconds (contracts.md §12). */
export const FLUSH_MS = 50;

const HASH = /^[0-9a-f]{64}$/;

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
  readonly #writer: Writer;
  readonly #options: LedgerOptions;
  readonly #batches: Batch[] = [];
  readonly #heads: ChainHeads;
  #timer?: ReturnType<typeof setTimeout>;
  #writing?: Promise<void>;
  #failure?: SbxError;
  #closing?: Promise<void>;
  #closed = false;

  private constructor(path: string, writer: Writer, heads: ChainHeads, options: LedgerOptions) {
    this.#path = path;
    this.#writer = writer;
    this.#heads = heads;
    this.#options = options;
  }

  /**
   * Opens or creates a ledger; a chain that is there goes on.
   *
   * @throws SbxError `ledger.conflict` when it belongs to another session, `ledger.invalid` when it is damaged
   */
  static open(path: string, options: LedgerOptions): Promise<Ledger> {
    const writer = new Writer(path, pragmas(options));
    try {
      const { sessionId, heads } = writer.open(options.sessionId);
      if (sessionId !== options.sessionId) {
        throw new SbxError("ledger.conflict", `the ledger ${path} belongs to session ${sessionId}`);
      }
      // On a chain that does not end in a hash nothing could be built that verifies.
      if (!HASH.test(heads.head_hash) || !HASH.test(heads.outcome_hash)) throw { code: "SQLITE_CORRUPT" };
      removeSeal(path);
      return Promise.resolve(new Ledger(path, writer, heads, options));
    } catch (error) {
      writer.close();
      return Promise.reject(ledgerError(error, path));
    }
  }

  /** Sequence of the last event that was appended, 0 before the first. */
  get sequence(): number {
    return this.#heads.events;
  }

  /** Hash of the last event that was appended: who keeps it can tell later that no event was cut off. */
  get headHash(): string {
    return this.#heads.head_hash;
  }

  /**
   * Appends an event and what was said of it; sets its `common.sequence`, which is answered.
   *
   * @throws SbxError `ledger.unavailable` when earlier rows could not be written: fail closed
   */
  append(entry: LedgerEntry): number {
    const batch = this.#openBatch();
    const heads = this.#heads;
    entry.event.common.sequence = heads.events + 1;
    heads.head_hash = batch.addEvent(entry, heads.head_hash);
    this.#schedule(batch.full);
    return ++heads.events;
  }

  /**
   * Adds how an event ended. An event ends once: what is said of one that has ended is kept as well, and changes
   * nothing of how it is read.
   *
   * @throws SbxError `ledger.unavailable`
   */
  end(outcome: LedgerOutcome): void {
    const batch = this.#openBatch();
    const heads = this.#heads;
    heads.outcome_hash = batch.addOutcome({ ...outcome, number: heads.outcomes + 1 }, heads.outcome_hash);
    heads.outcomes++;
    this.#schedule(batch.full);
  }

  /** @throws SbxError `ledger.unavailable` while earlier rows cannot be written: nothing may happen then */
  requireWritable(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Adds rows that belong to no new event: an approval, findings of a later hunt. */
  add({ findings, rows }: { findings?: readonly LedgerFinding[]; rows?: readonly LedgerRow[] }): void {
    const batch = this.#openBatch();
    batch.addRows(findings, rows);
    this.#schedule(batch.full);
  }

  /** Writes what was appended until now. @throws SbxError `ledger.unavailable` */
  async flush(): Promise<void> {
    await this.#writing;
    await this.#write();
    if (this.#failure) throw this.#failure;
  }

  /** Flushes, seals the file and closes it. @throws SbxError `ledger.unavailable` when the last rows were lost */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    let folded: boolean;
    try {
      await this.flush();
      folded = this.#writer.fold();
    } finally {
      this.#closed = true;
      clearTimeout(this.#timer);
      this.#writer.close();
    }
    await writeSeal(this.#path, this.#heads, folded);
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
      try {
        this.#writer.write(this.#batches[0]);
        this.#batches.shift();
        this.#failure = undefined;
      } catch (error) {
        this.#fail(error);
        return;
      }
    }
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
