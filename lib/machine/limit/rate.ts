import { backgroundDelay } from "../../base/time/mod.ts";

/** Time whose bytes may pass at once, in `ms`. */
const BURST_MS = 100;

/** A rate of bytes that many streams share, in the order in which they ask. */
export class Rate {
  readonly #bytesPerMs: number;
  readonly #onReached: () => void;
  /** when all bytes that were let through have had their time */
  #free = 0;

  /** @param onReached called whenever bytes have to wait */
  constructor(bytesPerSecond: number, onReached: () => void) {
    this.#bytesPerMs = bytesPerSecond / 1000;
    this.#onReached = onReached;
  }

  /** Settles when so many bytes more may pass. */
  async take(bytes: number): Promise<void> {
    const waitMs = this.reserve(bytes, performance.now());
    if (waitMs <= 0) return;
    this.#onReached();
    await backgroundDelay(waitMs);
  }

  /** Reserves the time of so many bytes. @returns `ms` from `now` until they may pass */
  reserve(bytes: number, now: number): number {
    this.#free = Math.max(this.#free, now) + bytes / this.#bytesPerMs;
    return this.#free - now - BURST_MS;
  }
}
