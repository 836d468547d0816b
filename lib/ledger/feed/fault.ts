/**
 * Records that a receiver fails on again and again, while it takes others. They are set aside in a file, so
 * that the rest of their session arrives.
 *
 * After {@linkcode BATCH_TRIES} failures of a batch its parts are sent by halves. The failing records are set
 * aside once each of them has failed {@linkcode RECORD_TRIES} times alone, if the receiver has taken anything
 * else meanwhile. A receiver that takes nothing is out of order, and gets everything later.
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
/**
 * Failures in a row, without a record taken, after which an attempt ends: the receiver fails on everything.
 */
const FAILURES_IN_ROW_MAX = 8;

/** The failing batch of one session, through all attempts to deliver it. */
export class Faults {
  /** successful deliveries of the sink, of any session, before the first failure */
  readonly #deliveriesBefore: number;
  readonly #taken = new Set<string>();
  readonly #failures = new Map<string, number>();
  /** failed attempts with the whole batch */
  tries = 0;

  constructor(deliveries: number) {
    this.#deliveriesBefore = deliveries;
  }

  /**
   * Sends the parts of a batch by halves.
   *
   * @param deliveries counts successful deliveries of the sink until now
   * @returns the records to set aside, each with its failure
   * @throws {DeliveryError} records failed that the receiver may take later
   */
  async sendParts(
    records: readonly FeedRecord[],
    send: (records: readonly FeedRecord[]) => Promise<void>,
    deliveries: () => number,
  ): Promise<{ record: FeedRecord; error: DeliveryError }[]> {
    const failed: { record: FeedRecord; error: DeliveryError }[] = [];
    let failuresInRow = 0;
    const sendPart = async (part: readonly FeedRecord[]): Promise<void> => {
      if (part.length === 0) return;
      try {
        await send(part);
        for (const record of part) this.#taken.add(keyOf(record));
        failuresInRow = 0;
      } catch (error) {
        if (!(error instanceof DeliveryError && error.isFault)) throw error;
        if (part.length > 1) {
          const middle = part.length >> 1;
          await sendPart(part.slice(0, middle));
          return await sendPart(part.slice(middle));
        }
        const [record] = part;
        this.#failures.set(keyOf(record), this.#failuresOf(record) + 1);
        failed.push({ record, error });
        if (++failuresInRow >= FAILURES_IN_ROW_MAX) throw error;
      }
    };
    // An earlier attempt may have delivered some of the parts.
    await sendPart(records.filter((record) => !this.#taken.has(keyOf(record))));
    const takesOthers = deliveries() > this.#deliveriesBefore;
    const areHopeless = failed.every(({ record }) => this.#failuresOf(record) >= RECORD_TRIES);
    if (failed.length > 0 && !(takesOthers && areHopeless)) throw failed[0].error;
    return failed;
  }

  #failuresOf(record: FeedRecord): number {
    return this.#failures.get(keyOf(record)) ?? 0;
  }
}

/** Identifies a record of the session; an event and its later end are two. */
function keyOf({ sequence, is_update }: FeedRecord): string {
  return `${sequence}${is_update ? " end" : ""}`;
}

/** Longest file of events that were set aside, in `bytes`; further ones are only counted. */
const FILE_MAX = 1024 * 1024;

/**
 * File with the events that a sink never took, for an administrator: the place of each in its ledger, and the
 * reason.
 */
export class SetAside {
  readonly path: string;
  readonly #dir: string;
  /** of the file when it was last read or written, in `bytes` */
  #size = -1;
  /** events set aside, also ones that the file has no room for */
  count = 0;

  constructor(dir: string) {
    this.#dir = dir;
    this.path = join(dir, "refused.jsonl");
  }

  /** Counts again if the file has changed: an administrator removes it once the events are dealt with. */
  async refresh(): Promise<void> {
    const size = (await Deno.lstat(this.path).catch(() => undefined))?.size ?? 0;
    if (size === this.#size) return;
    this.count = size === 0 ? 0 : (await Deno.readTextFile(this.path)).split("\n").length - 1;
    this.#size = size;
  }

  /** Adds an event. @throws the file cannot be written; the event must not be skipped then */
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
