import { SbxError } from "../base/error/mod.ts";
import type { Rows } from "./batch.ts";
import { knownError, type Reply, type Request } from "./message.ts";

/** Batches that may be on their way to the thread: whoever adds one more waits, as for a disk that is slow. */
const AHEAD_MAX = 8;
/** Longest such wait in milliseconds. A disk that takes longer for one batch is taken for broken. */
const STUCK_MS = 30_000;

/** A question to the thread, without its number. */
type Question = Request extends infer R ? R extends { id: number } ? Omit<R, "id" | "progress"> : never
  : never;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: SbxError): void;
}

/** This side of the thread that writes a ledger. */
export class LedgerThread {
  readonly #worker = new Worker(import.meta.resolve("./worker.ts"), { type: "module", name: "ledger" });
  readonly #asked = new Map<number, Waiting>();
  readonly #onFailure: (error: SbxError) => void;
  /** batches that the thread is done with */
  readonly #progress = new Int32Array(new SharedArrayBuffer(4));
  #posted = 0;
  #number = 0;
  /** it has ended, or was ended */
  #gone?: SbxError;

  /** @param onFailure called when rows could not be written, and when the thread is gone */
  constructor(onFailure: (error: SbxError) => void) {
    this.#onFailure = onFailure;
    this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => this.#hear(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#end(
        new SbxError("ledger.unavailable", "the ledger's thread has failed", { cause: event.message }),
      );
    };
  }

  /** @throws {SbxError} what the thread answers, `ledger.unavailable` when it is gone */
  ask<T>(question: Question): Promise<T> {
    if (this.#gone) return Promise.reject(this.#gone);
    const id = ++this.#number;
    const progress = this.#progress.buffer;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve: resolve as Waiting["resolve"], reject });
      this.#worker.postMessage({ ...question, id, ...(question.do === "open" && { progress }) });
    });
  }

  /** Hands rows over. @throws {SbxError} `ledger.unavailable` when the thread is gone or does not come on */
  write(rows: Rows): void {
    if (this.#gone) throw this.#gone;
    this.#worker.postMessage({ do: "write", rows });
    this.#posted = this.#posted + 1 | 0;
    for (let done = this.#done(); (this.#posted - done | 0) > AHEAD_MAX; done = this.#done()) {
      if (Atomics.wait(this.#progress, 0, done, STUCK_MS) !== "timed-out") continue;
      throw new SbxError("ledger.unavailable", "the ledger's disk takes too long", {
        hint: "check the disk that sbx keeps its sessions on",
      });
    }
  }

  close(): void {
    this.#end(new SbxError("ledger.unavailable", "the ledger is closed"), false);
  }

  #done(): number {
    return Atomics.load(this.#progress, 0);
  }

  #hear(reply: Reply): void {
    if ("failed" in reply) return this.#onFailure(knownError(reply.failed));
    const asked = this.#asked.get(reply.id);
    this.#asked.delete(reply.id);
    if ("error" in reply) asked?.reject(knownError(reply.error));
    else asked?.resolve(reply.value);
  }

  #end(error: SbxError, tell = true): void {
    if (this.#gone) return;
    this.#gone = error;
    this.#worker.terminate();
    for (const { reject } of this.#asked.values()) reject(error);
    this.#asked.clear();
    if (tell) this.#onFailure(error);
  }
}
