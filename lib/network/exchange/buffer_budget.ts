import { BUFFERED_TOTAL_MAX, TIMEOUTS } from "../limit.ts";

/** A body or message that is being received and held. */
export interface Receiving {
  /** Gives its room back and receives no more. */
  end(): void;
}

/**
 * Buffered `bytes` of all requests and messages of a VM. Holders that do not send on yield their room: when
 * it is needed, transfers that have been arriving for longer than `slowMs` end, the oldest first.
 */
export class BufferBudget {
  /** taken so far; what holds it gives it back by subtracting */
  bytes = 0;
  /** with the unix `ms` of its beginning, oldest first */
  readonly #receiving = new Map<Receiving, number>();

  constructor(readonly slowMs: number = TIMEOUTS.buffer, readonly max = BUFFERED_TOTAL_MAX) {}

  /** Takes room. @returns false without room */
  take(bytes: number): boolean {
    if (this.bytes + bytes > this.max) this.#makeRoom(bytes);
    if (this.bytes + bytes > this.max) return false;
    this.bytes += bytes;
    return true;
  }

  /** Notes a body or message that is not complete yet; a second time changes nothing. */
  begin(receiving: Receiving): void {
    if (!this.#receiving.has(receiving)) this.#receiving.set(receiving, Date.now());
  }

  /** Notes the end of a body or message: from now on it keeps its room. */
  complete(receiving: Receiving): void {
    this.#receiving.delete(receiving);
  }

  #makeRoom(bytes: number): void {
    for (const [receiving, since] of this.#receiving) {
      if (Date.now() - since < this.slowMs || this.bytes + bytes <= this.max) return;
      this.#receiving.delete(receiving);
      receiving.end();
    }
  }
}
