/** Senders deliver findings to one sink. */
import type { FindingRecord } from "./record.ts";

/** Delivers records to one sink. */
export interface Sender {
  /** maximum number of records per call */
  readonly batch: number;
  /**
   * Delivers records; settles once they have arrived.
   *
   * @returns number of records that the receiver rejected
   * @throws {DeliveryError}
   */
  send(records: readonly FindingRecord[], signal: AbortSignal): Promise<number>;
}

/** Failed delivery. */
export class DeliveryError extends Error {
  override name = "DeliveryError";

  constructor(
    message: string,
    /** the receiver rejected the records; a retry would fail too */
    readonly isRejected = false,
    /** delay that the receiver requested, in `ms` */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }
}
