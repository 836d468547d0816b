/**
 * Records that a receiver fails on again and again, while it takes others. They are set aside, so that the
 * rest of their session arrives; a receiver that takes nothing gets everything later.
 */
import { join } from "node:path";
import { DeliveryError } from "../sink/mod.ts";
import type { FeedRecord } from "./record.ts";

/**
 * Attempts with a whole batch before its parts are tried, and failures of one record before it is set aside
 * (docs/design/contracts/14-limits.md §14).
 */
export const BATCH_TRIES = 5;
export const RECORD_TRIES = 3;
/** Records that a receiver may fail on in a row before it has taken one: it fails on everything then. */
const ROW_MAX = 8;

/** Attempts with the batch of one session. */
export class Faults {
  /** deliveries of the sink before the first failure */
  readonly #before: number;
  readonly #taken = new Set<string>();
  readonly #failures = new Map<string, number>();
  tries = 0;

  constructor(deliveries: number) {
    this.#before = deliveries;
  }

  /**
   * Sends the parts of a batch by halves.
   *
   * @param deliveries deliveries of the sink until now
   * @returns the records that are to be set aside, each with its failure
   * @throws {DeliveryError} it may take the rest later
   */
  async sendParts(
    records: readonly FeedRecord[],
    send: (records: readonly FeedRecord[]) => Promise<void>,
    deliveries: () => number,
  ): Promise<{ record: FeedRecord; error: DeliveryError }[]> {
    const failed: { record: FeedRecord; error: DeliveryError }[] = [];
    let row = 0;
    const sendPart = async (part: readonly FeedRecord[]): Promise<void> => {
      if (part.length === 0) return;
      try {
        await send(part);
        for (const record of part) this.#taken.add(keyOf(record));
        row = 0;
      } catch (error) {
        if (!(error instanceof DeliveryError && error.isFault)) throw error;
        if (part.length > 1) {
          const middle = part.length >> 1;
          await sendPart(part.slice(0, middle));
          return await sendPart(part.slice(middle));
        }
        const [record] = part;
        this.#failures.set(keyOf(record), (this.#failures.get(keyOf(record)) ?? 0) + 1);
        failed.push({ record, error });
        if (++row >= ROW_MAX) throw error;
      }
    };
    // It has these since an earlier attempt.
    await sendPart(records.filter((record) => !this.#taken.has(keyOf(record))));
    const takesOthers = deliveries() > this.#before;
    const isOver = failed.every(({ record }) => this.#failures.get(keyOf(record))! >= RECORD_TRIES);
    if (failed.length > 0 && !(takesOthers && isOver)) throw failed[0].error;
    return failed;
  }
}

function keyOf({ sequence, is_update }: FeedRecord): string {
  return `${sequence}${is_update ? " end" : ""}`;
}

/** Longest file of events that were set aside, in `bytes`; further ones are only counted. */
const FILE_MAX = 1024 * 1024;

/** List of events that a sink never took, for people: each one's place in its ledger, and the reason. */
export class SetAside {
  readonly path: string;
  readonly #dir: string;
  #size = -1;
  count = 0;

  constructor(dir: string) {
    this.#dir = dir;
    this.path = join(dir, "refused.jsonl");
  }

  /** Counts again if the file has changed: a person removes it when all is done. */
  async refresh(): Promise<void> {
    const size = (await Deno.lstat(this.path).catch(() => undefined))?.size ?? 0;
    if (size === this.#size) return;
    this.count = size === 0 ? 0 : (await Deno.readTextFile(this.path)).split("\n").length - 1;
    this.#size = size;
  }

  /** @throws the file cannot be written: the event must not be passed over */
  async add({ session_id, sequence, event_id, event_type }: FeedRecord, reason: string): Promise<void> {
    this.count++;
    if (this.#size > FILE_MAX) return;
    const line = JSON.stringify({
      at_unix_ms: Date.now(),
      session_id,
      sequence,
      event_id,
      event_type,
      reason,
    });
    await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
    await Deno.writeTextFile(this.path, `${line}\n`, { append: true, mode: 0o600 });
    this.#size = (await Deno.lstat(this.path)).size;
  }
}
