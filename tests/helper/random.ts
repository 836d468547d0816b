/**
 * Random numbers that come out the same for the same seed (mulberry32): a fuzz
 * test that fails can be run again.
 */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 … 2³²−1 */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  /** 0 … limit−1 */
  below(limit: number): number {
    return this.next() % limit;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)];
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.below(256));
  }
}
