/**
 * Finding sinks of a session: each has a queue on disk and delivers from it, with growing waits while its
 * receiver is away.
 */
import { timeLimit } from "../../base/time/mod.ts";
import { join } from "node:path";
import type { DetectionFinding } from "../../detection/mod.ts";
import type { Event } from "../../event/mod.ts";
import { type AuditOptions, AuditSender } from "./audit.ts";
import type { Endpoint } from "./http.ts";
import { OcsfSender } from "./ocsf.ts";
import { OtlpSender } from "./otlp.ts";
import {
  DeliveryError,
  type FindingRecord,
  lineOf,
  type RecordContext,
  recordOf,
  type Sender,
} from "./record.ts";
import { type WebhookOptions, WebhookSender } from "./webhook.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { DiskQueue, type QueueBatch, type QueueOptions } from "./queue.ts";

/** Sinks that no route leaves out. */
const EVERY: ReadonlySet<string> = new Set(["audit", "webhook"]);
/** Default time for deliveries on close, in `ms`. */
const CLOSE_MS = timeLimit(2000);

interface DeliveryOptions extends QueueOptions {
  backoff?: { firstMs: number; maxMs: number };
}

export interface SinksOptions extends DeliveryOptions {
  /** folder of the queues, used by one process only */
  dir: string;
  audit?: AuditOptions;
  /** `sigma_output_endpoint`: one OCSF Detection Finding per POST */
  http?: Endpoint;
  /** `open_telemetry`: OTLP/HTTP logs in JSON */
  otlp?: Endpoint;
  /** messages of findings of a severity and up */
  webhook?: WebhookOptions;
}

/**
 * Sinks of findings in addition to the ledger (docs/guides/detection.md, "Where findings go"). Each has its
 * own queue on disk: `send` returns at once, an unreachable sink does not block the others, and receives the
 * queued findings later, also after a restart. A finding may arrive twice, with the same id.
 *
 * @example
 * ```ts
 * const sinks = await FindingSinks.open({ dir, audit: { path } });
 * for (const finding of matcher.match(event)) sinks.send(finding, event);
 * await sinks.close();
 * ```
 */
export class FindingSinks {
  private constructor(readonly sinks: readonly Delivery[]) {}

  /** @throws {SbxError} `sink.conflict`: another process uses the folder */
  static async open({ dir, audit, http, otlp, webhook, ...options }: SinksOptions): Promise<FindingSinks> {
    const senders = [
      ["audit", audit && new AuditSender(audit)],
      ["http", http && new OcsfSender(http)],
      ["otlp", otlp && new OtlpSender(otlp)],
      ["webhook", webhook && new WebhookSender(webhook)],
    ] as const;
    const sinks: Delivery[] = [];
    try {
      for (const [name, sender] of senders) {
        if (sender) sinks.push(await Delivery.open(name, join(dir, name), sender, options));
      }
    } catch (error) {
      await Promise.all(sinks.map((sink) => sink.close(0)));
      throw error;
    }
    return new FindingSinks(sinks);
  }

  /**
   * Queues a finding for the sinks that its `export_routes` name, or for all; the audit file gets every
   * finding. Never throws, never waits.
   */
  send(finding: DetectionFinding, event: Event, context?: RecordContext): void {
    const record = recordOf(finding, event, context);
    const { export_routes: routes = [] } = finding;
    for (const sink of this.sinks) {
      const isNamed = EVERY.has(sink.name) || routes.length === 0 || routes.includes(sink.name);
      if (isNamed && (sink.sender.accepts?.(record) ?? true)) sink.put(record);
    }
  }

  /** Status of each sink. */
  status(): SinkStatus[] {
    return this.sinks.map((sink) => sink.status());
  }

  /** Delivers findings for up to `graceMs`; the rest stays on disk for the next `open`. */
  async close(graceMs = CLOSE_MS): Promise<void> {
    await Promise.all(this.sinks.map((sink) => sink.close(graceMs)));
  }
}

/** First and longest delay between attempts, in `ms`. */
const BACKOFF_FIRST_MS = 1000;
const BACKOFF_MAX_MS = 60_000;
/** Maximum delay that a receiver can request, in `ms`. */
const RETRY_AFTER_MAX_MS = 5 * 60_000;
/** Maximum `bytes` of refused.jsonl, which stores rejected findings for inspection. */
const REJECTED_BYTES = 1024 * 1024;

/** Status of one sink. */
export interface SinkStatus {
  name: string;
  /** findings delivered since the process started */
  sent: number;
  /** `bytes` in the queue */
  queued_bytes: number;
  /** findings dropped because the queue was full */
  dropped: number;
  /** findings that the receiver rejected */
  refused: number;
  last_sent_unix_ms: number | null;
  /** null after a successful attempt */
  last_error: string | null;
}

/** One sink: its queue and the loop that delivers it. */
class Delivery {
  readonly #abort = new AbortController();
  readonly #loop: Promise<void>;
  #sent = 0;
  #rejected = 0;
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

  /** @throws {SbxError} `sink.conflict`: another process uses the queue */
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
      refused: this.#rejected,
      last_sent_unix_ms: this.#lastSent,
      last_error: this.#lastError,
    };
  }

  /** Delivers queued findings for up to `graceMs`; the rest stays on disk for the next process. */
  async close(graceMs: number): Promise<void> {
    const deadline = Date.now() + graceMs;
    await Promise.race([this.queue.flush(), pause(graceMs, this.#abort.signal)]);
    while (this.queue.bytes > 0 && this.#lastError === null && Date.now() < deadline) await pause(20);
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
          this.#fail(asSbxError(error, `recording deliveries to the sink ${this.name}`).message)
        );
      } else await pause(BACKOFF_FIRST_MS, this.#abort.signal);
    }
  }

  /** Retries until the batch is delivered or rejected, or the sink is closed. */
  async #deliver({ lines, commit }: QueueBatch): Promise<void> {
    const { firstMs, maxMs } = this.options.backoff ?? { firstMs: BACKOFF_FIRST_MS, maxMs: BACKOFF_MAX_MS };
    for (let delay = firstMs; !this.#abort.signal.aborted; delay = Math.min(delay * 2, maxMs)) {
      const failure = await this.#attempt(lines);
      if (this.#abort.signal.aborted) return;
      if (!failure) return await commit();
      if (failure.isRejected) {
        // One record can cause the rejection of a batch: send each one alone to find it.
        if (lines.length === 1) {
          await this.#storeRejected(lines[0], failure.message);
        } else {
          for (const line of lines) await this.#deliver({ lines: [line], commit: () => Promise.resolve() });
        }
        return this.#abort.signal.aborted ? undefined : await commit();
      }
      this.#fail(failure.message);
      // Jitter spreads the retries of several machines after a shared outage.
      const jitter = delay * (0.5 + Math.random() / 2);
      await pause(
        Math.max(jitter, Math.min(failure.retryAfterMs ?? 0, RETRY_AFTER_MAX_MS)),
        this.#abort.signal,
      );
    }
  }

  async #attempt(lines: readonly string[]): Promise<DeliveryError | undefined> {
    const records = lines.map(parseRecord);
    if (records.includes(undefined)) return new DeliveryError("the queue file is damaged", true);
    try {
      const rejected = await this.sender.send(records as FindingRecord[], this.#abort.signal);
      if (rejected) {
        this.options.onProblem?.(
          `the sink ${this.name} rejected ${rejected} of ${lines.length} findings`,
        );
      }
      this.#rejected += rejected;
      this.#sent += lines.length - rejected;
    } catch (error) {
      return error instanceof DeliveryError
        ? error
        : new DeliveryError(asSbxError(error, `sending to ${this.name}`).message);
    }
    this.#lastSent = Date.now();
    this.#lastError = null;
  }

  #fail(message: string): void {
    // One message per outage, not per attempt.
    if (this.#lastError === null) {
      this.options.onProblem?.(`findings are queued for the sink ${this.name}: ${message}`);
    }
    this.#lastError = message;
  }

  async #storeRejected(line: string, message: string): Promise<void> {
    this.#rejected++;
    this.options.onProblem?.(`the sink ${this.name} rejected a finding: ${message}`);
    const path = join(this.queue.dir, "refused.jsonl");
    const size = await Deno.stat(path).then(({ size }) => size, () => 0);
    const bytes = new TextEncoder().encode(`${line}\n`);
    if (size + bytes.length <= REJECTED_BYTES) {
      await Deno.writeFile(path, bytes, { append: true, mode: 0o600 });
    }
  }
}

function parseRecord(line: string): FindingRecord | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Waits `ms`, or until the signal aborts. */
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
