/** What it takes to hand findings over, and what may come of it. */
import type { FindingRecord } from "./record.ts";

/** Hands records over to the outside. */
export interface Sender {
  /** records of one call */
  readonly batch: number;
  /**
   * Settles when they have arrived.
   *
   * @returns how many of them the receiver got and does not take
   * @throws {NotSent}
   */
  send(records: readonly FindingRecord[], signal: AbortSignal): Promise<number>;
}

/** Why records did not arrive. */
export class NotSent extends Error {
  override name = "NotSent";

  constructor(
    message: string,
    /** they never will: the receiver looked at them and does not take them */
    readonly refused = false,
    /** what the receiver says of when to come again, in milliseconds */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }
}
