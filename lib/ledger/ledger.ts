import { SbxError } from "../base/error/mod.ts";
import { Batch } from "./batch.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./entry.ts";
import type { Opened } from "./message.ts";
import { LedgerThread } from "./thread.ts";

/** The longest that an event waits for the thread, in milliseconds. With the wait there it is half of what contracts.md §12 allows. */
const HAND_MS = 10;

/** How a ledger is opened. */
export interface LedgerOptions {
  sessionId: string;
  /** size in bytes at which the ledger counts as full; default: what the disk holds */
  maxBytes?: number;
  /** called when a flush fails, once until one succeeds again: the caller then fails closed */
  onError?(error: SbxError): void;
}

/**
 * The writer of one session's ledger (contracts.md §12). `append` fixes order, sequence and text at once and in
 * memory; a thread hashes the rows and writes them in batches. After a failed flush nothing is lost and nothing more is
 * taken: `append` throws until a `flush` succeeds.
 */
export class Ledger {
  readonly #path: string;
  readonly #options: LedgerOptions;
  readonly #thread: LedgerThread;
  #batch = new Batch();
  #events = 0;
  #outcomes = 0;
  #timer?: ReturnType<typeof setTimeout>;
  #failure?: SbxError;
  #closing?: Promise<void>;
  #closed = false;

  private constructor(path: string, options: LedgerOptions) {
    this.#path = path;
    this.#options = options;
    this.#thread = new LedgerThread((error) => this.#fail(error));
  }

  /**
   * Opens or creates a ledger; a chain that is there goes on.
   *
   * @throws SbxError `ledger.conflict` when it belongs to another session, `ledger.invalid` when it is damaged
   */
  static async open(path: string, options: LedgerOptions): Promise<Ledger> {
    const ledger = new Ledger(path, options);
    try {
      await ledger.#open();
      return ledger;
    } catch (error) {
      ledger.#thread.close();
      throw error;
    }
  }

  async #open(): Promise<void> {
    const { events, outcomes } = await this.#thread.ask<Opened>({
      do: "open",
      path: this.#path,
      sessionId: this.#options.sessionId,
      maxBytes: this.#options.maxBytes,
    });
    this.#events = events;
    this.#outcomes = outcomes;
  }

  /** Sequence of the last event that was appended, 0 before the first. */
  get sequence(): number {
    return this.#events;
  }

  /**
   * Appends an event and what was said of it; sets its `common.sequence`, which is answered.
   *
   * @throws SbxError `ledger.unavailable` when earlier rows could not be written: fail closed
   */
  append(entry: LedgerEntry): number {
    this.#requireOpen();
    entry.event.common.sequence = this.#events + 1;
    this.#batch.addEvent(entry);
    this.#events++;
    this.#schedule();
    return this.#events;
  }

  /**
   * Adds how an event ended. An event ends once: what is said of one that has ended is kept as well, and changes
   * nothing of how it is read.
   *
   * @throws SbxError `ledger.unavailable`
   */
  end(outcome: LedgerOutcome): void {
    this.#requireOpen();
    this.#batch.addOutcome({ ...outcome, number: this.#outcomes + 1 });
    this.#outcomes++;
    this.#schedule();
  }

  /** @throws SbxError `ledger.unavailable` while earlier rows cannot be written: nothing may happen then */
  requireWritable(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Adds rows that belong to no new event: an approval, findings of a later hunt. */
  add({ findings, rows }: { findings?: readonly LedgerFinding[]; rows?: readonly LedgerRow[] }): void {
    this.#requireOpen();
    this.#batch.addRows(findings, rows);
    this.#schedule();
  }

  /** Writes what was appended until now. @throws SbxError `ledger.unavailable` */
  async flush(): Promise<void> {
    try {
      this.#hand();
      await this.#thread.ask({ do: "flush" });
      this.#failure = undefined;
    } catch (error) {
      throw this.#fail(error as SbxError);
    }
  }

  /**
   * Gives it another limit.
   *
   * @param maxBytes as in {@linkcode LedgerOptions}
   * @throws SbxError `ledger.unavailable`
   */
  async limit(maxBytes?: number): Promise<void> {
    await this.#thread.ask({ do: "limit", maxBytes });
  }

  /** Flushes, seals the file and closes it. @throws SbxError `ledger.unavailable` when the last rows were lost */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    try {
      // Who waited for a person hears now that nobody will come, and says how that ended.
      await this.flush();
      this.#closed = true;
      this.#hand();
      await this.#thread.ask({ do: "close" });
    } catch (error) {
      throw this.#fail(error as SbxError);
    } finally {
      this.#closed = true;
      clearTimeout(this.#timer);
      this.#thread.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #requireOpen(): void {
    if (this.#closed) throw new SbxError("ledger.unavailable", `the ledger ${this.#path} is closed`);
    if (this.#failure) throw this.#failure;
  }

  #schedule(): void {
    if (this.#batch.full) this.#handQuietly();
    else this.#timer ??= setTimeout(() => this.#handQuietly(), HAND_MS);
  }

  /** Gives what was gathered to the thread. @throws SbxError `ledger.unavailable` */
  #hand(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#batch.empty) return;
    const { rows } = this.#batch;
    this.#batch = new Batch();
    this.#thread.write(rows);
  }

  /** What was taken stays taken: whoever comes next hears of the failure. */
  #handQuietly(): void {
    try {
      this.#hand();
    } catch (error) {
      this.#fail(error as SbxError);
    }
  }

  #fail(error: SbxError): SbxError {
    const first = !this.#failure;
    this.#failure = error.code === "ledger.unavailable"
      ? error
      : new SbxError("ledger.unavailable", `the ledger ${this.#path} cannot be written`, { cause: error });
    if (first) this.#options.onError?.(this.#failure);
    return this.#failure;
  }
}
