/** The writing side of a ledger: rows are gathered here, and hashed and written by a thread. */
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import { Batch, fromPlainError, type Opened, type Reply, type Request, type Rows } from "./batch.ts";
import type { LastEvent, LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "./schema.ts";
import { refusalBytes } from "./failure.ts";
import { type ChainHeads, writeSignedSeal } from "./chain.ts";
import { timeLimit } from "../base/time/mod.ts";

/**
 * `ms` that an event waits here at most. Together with the wait of the thread: half of the flush time of
 * docs/design/contracts/12-ledger.md §12.
 */
const SEND_MS = 10;

/** `bytes` of a row in the file beyond its text: ids, hashes, indexes. */
const ROW_BYTES = 1024;

/** Options of {@linkcode Ledger.open}. */
export interface LedgerOptions {
  sessionId: string;
  /** size in `bytes` at which the ledger is full; default: no limit but the disk */
  maxBytes?: number;
  /** signs the text of the seal; `undefined`: nothing here can, and the seal stays unsigned */
  sign?(text: string): Promise<string | undefined>;
  /** called when writing fails, once until a flush succeeds: the caller then fails closed */
  onError?(error: SbxError): void;
  /** gets the ends of the chains in the file: once it is open, and after each write */
  onHeads?(heads: ChainHeads): void;
}

/**
 * The writer of one session's ledger (docs/design/contracts/12-ledger.md §12). `append` sets order, sequence
 * and text immediately, in memory; a thread hashes the rows and writes them in batches. A failed write loses
 * nothing, and `append` throws until a `flush` succeeds.
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
  #maxBytes?: number;
  /** `bytes` of the reserve that refusals and ends may still take; 0 unless the ledger is full */
  #reserve = 0;
  #closing?: Promise<void>;
  #closed = false;

  private constructor(path: string, options: LedgerOptions) {
    this.#path = path;
    this.#options = options;
    this.#maxBytes = options.maxBytes;
    this.#thread = new LedgerThread((error) => this.#fail(error), (heads) => options.onHeads?.(heads));
  }

  /**
   * Opens or creates a ledger, and continues its chain. One of an older version is migrated.
   *
   * @throws {SbxError} `ledger.conflict`: it belongs to another session; `ledger.invalid`: it is damaged;
   * `ledger.version.conflict`: a newer sbx wrote it; `ledger.unavailable`
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

  /** Sequence of the last appended event, 0 before the first. */
  get sequence(): number {
    return this.#events;
  }

  /**
   * Appends an event with its decision and findings, and sets its `common.sequence`. A full ledger takes
   * blocks only, as long as its reserve has room.
   *
   * @returns the sequence
   * @throws {SbxError} `ledger.unavailable`: earlier rows could not be written; fail closed
   */
  append(entry: LedgerEntry): number {
    this.#requireOpen(entry.decision?.decision === "block");
    entry.event.common.sequence = this.#events + 1;
    this.#add(() => this.#batch.addEvent(entry));
    this.#events++;
    this.#schedule();
    return this.#events;
  }

  /**
   * Adds the end of an event. Further outcomes of the same event are stored, and readers ignore them.
   *
   * @throws {SbxError} `ledger.unavailable`
   */
  end(outcome: LedgerOutcome): void {
    this.#requireOpen(true);
    this.#add(() => this.#batch.addOutcome({ ...outcome, number: this.#outcomes + 1 }));
    this.#outcomes++;
    this.#schedule();
  }

  /** @throws {SbxError} `ledger.unavailable`: earlier rows cannot be written, so nothing may happen */
  requireWritable(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Adds rows without a new event: an approval, findings of a later hunt. */
  add({ findings, rows }: { findings?: readonly LedgerFinding[]; rows?: readonly LedgerRow[] }): void {
    this.#requireOpen(true);
    this.#add(() => this.#batch.addRows(findings, rows));
    this.#schedule();
  }

  /** Writes everything appended so far. @throws {SbxError} `ledger.unavailable` */
  async flush(): Promise<void> {
    await this.#flush("flush");
  }

  /** Writes everything appended so far. @returns the last event @throws {SbxError} `ledger.unavailable` */
  async last(): Promise<LastEvent | undefined> {
    return await this.#flush<LastEvent | undefined>("last");
  }

  async #flush<T>(request: "flush" | "last"): Promise<T> {
    try {
      this.#send();
      const answer = await this.#thread.ask<T>({ do: request });
      this.#failure = undefined;
      this.#reserve = 0;
      return answer;
    } catch (error) {
      throw this.#fail(error as SbxError);
    }
  }

  /**
   * Changes the size limit.
   *
   * @param maxBytes as in {@linkcode LedgerOptions}
   * @throws {SbxError} `ledger.unavailable`
   */
  async limit(maxBytes?: number): Promise<void> {
    await this.#thread.ask({ do: "limit", maxBytes });
    this.#maxBytes = maxBytes;
  }

  /**
   * Flushes, seals the file and closes it.
   * @throws {SbxError} `ledger.unavailable`: the last rows are lost
   */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    try {
      // Asks that still wait are denied meanwhile, and their outcomes come in before the close.
      await this.flush().catch(() => {/* the close tries again, from the reserve */});
      this.#closed = true;
      this.#send();
      await this.#signSeal(await this.#thread.ask<string>({ do: "close" }));
    } catch (error) {
      throw this.#fail(error as SbxError);
    } finally {
      this.#closed = true;
      clearTimeout(this.#timer);
      this.#thread.close();
    }
  }

  /** A seal that cannot be signed proves as much as an unsigned one. */
  async #signSeal(text: string): Promise<void> {
    try {
      const envelope = await this.#options.sign?.(text);
      if (envelope !== undefined) await writeSignedSeal(this.#path, envelope);
    } catch (error) {
      log.warn(`the seal of ${this.#path} is not signed: ${asSbxError(error, "signing").message}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @param mayUseReserve the row is written to a full ledger as well, while its reserve has room */
  #requireOpen(mayUseReserve: boolean): void {
    if (this.#closed) throw new SbxError("ledger.unavailable", `the ledger ${this.#path} is closed`);
    if (this.#failure && !(mayUseReserve && this.#reserve > 0)) throw this.#failure;
  }

  #add(add: () => void): void {
    const { size, count } = this.#batch.rows;
    add();
    if (this.#reserve === 0) return;
    const { rows } = this.#batch;
    this.#reserve = Math.max(0, this.#reserve - (rows.size - size) - (rows.count - count) * ROW_BYTES);
  }

  #schedule(): void {
    if (this.#batch.full) this.#sendOrFail();
    else this.#timer ??= setTimeout(() => this.#sendOrFail(), SEND_MS);
  }

  /** Sends the gathered rows to the thread. @throws {SbxError} `ledger.unavailable` */
  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#batch.empty) return;
    const { rows } = this.#batch;
    this.#batch = new Batch();
    this.#thread.write(rows);
  }

  /** A failure throws at the next call: the rows so far were accepted. */
  #sendOrFail(): void {
    try {
      this.#send();
    } catch (error) {
      this.#fail(error as SbxError);
    }
  }

  #fail(error: SbxError): SbxError {
    const first = !this.#failure;
    const isFull = error.code === "ledger.full";
    if (first && isFull) this.#reserve = refusalBytes(this.#maxBytes);
    this.#failure = error.code === "ledger.unavailable" ? error : new SbxError(
      "ledger.unavailable",
      isFull ? error.message : `the ledger ${this.#path} cannot be written`,
      {
        cause: error,
        ...(isFull && { hint: error.hint }),
      },
    );
    if (first) this.#options.onError?.(this.#failure);
    return this.#failure;
  }
}

// The writing thread of a ledger.

/** Batches that may wait for the thread. Sending one more blocks, as for a slow disk. */
const AHEAD_MAX = 8;

/** Longest such block in `ms`. A disk that takes longer for one batch counts as broken. */
const STUCK_MS = timeLimit(30_000);

/** A request to the thread, without its id. */
type Question = Request extends infer R ? R extends { id: number } ? Omit<R, "id" | "progress"> : never
  : never;

interface Resolvers {
  resolve(value: unknown): void;
  reject(error: SbxError): void;
}

let ahead: Worker | undefined;

/**
 * Starts the thread of the ledger that this process will open: to load takes it longer than to open a ledger.
 */
export function startThreadAhead(): void {
  ahead ??= startThread();
}

function takeThread(): Worker {
  const thread = ahead ?? startThread();
  ahead = undefined;
  return thread;
}

function startThread(): Worker {
  return new Worker(import.meta.resolve("./worker.ts"), { type: "module", name: "ledger" });
}

/** The sending side of the thread that writes a ledger. */
class LedgerThread {
  readonly #worker = takeThread();
  /** by request id */
  readonly #unanswered = new Map<number, Resolvers>();
  readonly #onFailure: (error: SbxError) => void;
  readonly #onHeads: (heads: ChainHeads) => void;
  /** number of batches handled by the thread */
  readonly #progress = new Int32Array(new SharedArrayBuffer(4));
  #sent = 0;
  #lastId = 0;
  /** set once the thread has ended */
  #ended?: SbxError;

  /**
   * @param onFailure called when rows could not be written, and when the thread fails
   * @param onHeads gets the ends of the chains after each write
   */
  constructor(onFailure: (error: SbxError) => void, onHeads: (heads: ChainHeads) => void) {
    this.#onFailure = onFailure;
    this.#onHeads = onHeads;
    this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      const error = new SbxError("ledger.unavailable", "the writing thread of the ledger failed", {
        cause: event.message,
      });
      if (this.#end(error)) this.#onFailure(error);
    };
  }

  /** @throws {SbxError} the thread's error, `ledger.unavailable`: it has ended */
  ask<T>(question: Question): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = ++this.#lastId;
    const progress = this.#progress.buffer;
    return new Promise((resolve, reject) => {
      this.#unanswered.set(id, { resolve: resolve as Resolvers["resolve"], reject });
      this.#worker.postMessage({ ...question, id, ...(question.do === "open" && { progress }) });
    });
  }

  /** Sends rows. @throws {SbxError} `ledger.unavailable`: the thread has ended, or is stuck */
  write(rows: Rows): void {
    if (this.#ended) throw this.#ended;
    this.#worker.postMessage({ do: "write", rows });
    this.#sent = this.#sent + 1 | 0;
    for (let done = this.#handled(); (this.#sent - done | 0) > AHEAD_MAX; done = this.#handled()) {
      if (Atomics.wait(this.#progress, 0, done, STUCK_MS) !== "timed-out") continue;
      throw new SbxError("ledger.unavailable", "writing to the ledger takes too long", {
        hint: "check the disk that holds the home of sbx",
      });
    }
  }

  close(): void {
    this.#end(new SbxError("ledger.unavailable", "the ledger is closed"));
  }

  #handled(): number {
    return Atomics.load(this.#progress, 0);
  }

  #receive(reply: Reply): void {
    if ("heads" in reply) return this.#onHeads(reply.heads);
    if ("failed" in reply) return this.#onFailure(fromPlainError(reply.failed));
    const resolvers = this.#unanswered.get(reply.id);
    this.#unanswered.delete(reply.id);
    if ("error" in reply) resolvers?.reject(fromPlainError(reply.error));
    else resolvers?.resolve(reply.value);
  }

  /** @returns false if it had ended before */
  #end(error: SbxError): boolean {
    if (this.#ended) return false;
    this.#ended = error;
    this.#worker.terminate();
    for (const { reject } of this.#unanswered.values()) reject(error);
    this.#unanswered.clear();
    return true;
  }
}
