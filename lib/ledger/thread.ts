import { SbxError } from "../base/error/mod.ts";
import { timeLimit } from "../base/time/mod.ts";
import type { Rows } from "./batch.ts";
import { fromPlainError, type Reply, type Request } from "./message.ts";

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

/** Starts the thread of the ledger that this process will open: to load takes it longer than to open a ledger. */
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
export class LedgerThread {
  readonly #worker = takeThread();
  /** by request id */
  readonly #unanswered = new Map<number, Resolvers>();
  readonly #onFailure: (error: SbxError) => void;
  /** number of batches handled by the thread */
  readonly #progress = new Int32Array(new SharedArrayBuffer(4));
  #sent = 0;
  #lastId = 0;
  /** set once the thread has ended */
  #ended?: SbxError;

  /** @param onFailure called when rows could not be written, and when the thread fails */
  constructor(onFailure: (error: SbxError) => void) {
    this.#onFailure = onFailure;
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
