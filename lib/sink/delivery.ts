import { join } from "node:path";
import { asSbxError } from "../base/error/mod.ts";
import { DiskQueue, type QueueBatch, type QueueOptions } from "./queue.ts";
import { type FindingRecord, lineOf } from "./record.ts";
import { NotSent, type Sender } from "./sender.ts";

/** Milliseconds between attempts: the first, and the longest. */
export const BACKOFF_FIRST_MS = 1000;
export const BACKOFF_MAX_MS = 60_000;
/** The longest that a receiver may ask to be left alone. */
const RETRY_AFTER_MAX_MS = 5 * 60_000;
/** Bytes of what receivers refused that are kept to be looked at. */
const REFUSED_BYTES = 1024 * 1024;

export interface DeliveryOptions extends QueueOptions {
  backoff?: { firstMs: number; maxMs: number };
}

/** How one sink does. */
export interface SinkStatus {
  name: string;
  /** findings that arrived since the process started */
  sent: number;
  /** bytes that wait */
  queued_bytes: number;
  /** that found no room in the queue */
  dropped: number;
  /** that the receiver does not take */
  refused: number;
  last_sent_unix_ms: number | null;
  /** null when the last attempt went well */
  last_error: string | null;
}

/** One sink: its queue, and the loop that empties it. */
export class Delivery {
  readonly #abort = new AbortController();
  readonly #loop: Promise<void>;
  #sent = 0;
  #refused = 0;
  #lastSent: number | null = null;
  #lastError: string | null = null;

  private constructor(
    readonly name: string,
    readonly queue: DiskQueue,
    readonly sender: Sender,
    readonly options: DeliveryOptions,
  ) {
    this.#loop = this.#run();
  }

  /** @throws {SbxError} `sink.conflict` */
  static async open(name: string, dir: string, sender: Sender, options: DeliveryOptions): Promise<Delivery> {
    return new Delivery(name, await DiskQueue.open(dir, options), sender, options);
  }

  put(record: FindingRecord): void {
    this.queue.push(lineOf(record));
  }

  status(): SinkStatus {
    return {
      name: this.name,
      sent: this.#sent,
      queued_bytes: this.queue.bytes,
      dropped: this.queue.dropped,
      refused: this.#refused,
      last_sent_unix_ms: this.#lastSent,
      last_error: this.#lastError,
    };
  }

  /** Delivers what waits for at most `graceMs`; the rest stays on disk for the next process. */
  async close(graceMs: number): Promise<void> {
    const late = Date.now() + graceMs;
    await Promise.race([this.queue.flush(), pause(graceMs, this.#abort.signal)]);
    while (this.queue.bytes > 0 && this.#lastError === null && Date.now() < late) await pause(20);
    this.#abort.abort();
    this.queue.end();
    await this.#loop;
    await this.queue.close();
  }

  async #run(): Promise<void> {
    for (;;) {
      const batch = await this.queue.take(this.sender.batch).catch((error) => {
        this.#fail(asSbxError(error, `reading the queue ${this.queue.dir}`).message);
      });
      if (this.#abort.signal.aborted) return;
      if (batch) {
        await this.#deliver(batch).catch((error) =>
          this.#fail(asSbxError(error, "noting what was sent").message)
        );
      } else await pause(BACKOFF_FIRST_MS, this.#abort.signal);
    }
  }

  /** Until it is delivered, or the receiver does not take it, or this sink is closed. */
  async #deliver({ lines, commit }: QueueBatch): Promise<void> {
    const { firstMs, maxMs } = this.options.backoff ?? { firstMs: BACKOFF_FIRST_MS, maxMs: BACKOFF_MAX_MS };
    for (let delay = firstMs; !this.#abort.signal.aborted; delay = Math.min(delay * 2, maxMs)) {
      const failure = await this.#attempt(lines);
      if (this.#abort.signal.aborted) return;
      if (!failure) return await commit();
      if (failure.refused) {
        // One of many may be what is not taken: each by itself shows which.
        if (lines.length === 1) await this.#keepRefused(lines[0], failure.message);
        else {for (const line of lines) {
            await this.#deliver({
              lines: [line],
              commit: () => Promise.resolve(),
            });
          }}
        return this.#abort.signal.aborted ? undefined : await commit();
      }
      this.#fail(failure.message);
      // Several machines that lost one receiver do not come back all at once.
      const jitter = delay * (0.5 + Math.random() / 2);
      await pause(
        Math.max(jitter, Math.min(failure.retryAfterMs ?? 0, RETRY_AFTER_MAX_MS)),
        this.#abort.signal,
      );
    }
  }

  async #attempt(lines: readonly string[]): Promise<NotSent | undefined> {
    const records = lines.map(parsed);
    if (records.includes(undefined)) return new NotSent("the queue's file is damaged there", true);
    try {
      const rejected = await this.sender.send(records as FindingRecord[], this.#abort.signal);
      if (rejected) {
        this.options.onProblem?.(
          `the sink ${this.name} does not take ${rejected} of ${lines.length} findings`,
        );
      }
      this.#refused += rejected;
      this.#sent += lines.length - rejected;
    } catch (error) {
      return error instanceof NotSent
        ? error
        : new NotSent(asSbxError(error, `sending to ${this.name}`).message);
    }
    this.#lastSent = Date.now();
    this.#lastError = null;
  }

  #fail(message: string): void {
    // One message an outage, not one an attempt.
    if (this.#lastError === null) {
      this.options.onProblem?.(`findings wait for the sink ${this.name}: ${message}`);
    }
    this.#lastError = message;
  }

  async #keepRefused(line: string, message: string): Promise<void> {
    this.#refused++;
    this.options.onProblem?.(`the sink ${this.name} does not take a finding: ${message}`);
    const path = join(this.queue.dir, "refused.jsonl");
    const size = await Deno.stat(path).then(({ size }) => size, () => 0);
    if (size + line.length < REFUSED_BYTES) {
      await Deno.writeTextFile(path, line + "\n", { append: true, mode: 0o600 });
    }
  }
}

function parsed(line: string): FindingRecord | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Waits, or until a signal. */
function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
  });
}
