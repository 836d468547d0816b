/** Slowest download that is waited for (docs/design/contracts/10-release.md §10, "Downloads"). */
export interface Pace {
  /** `ms` in which {@linkcode Pace.bytes} have to arrive */
  ms: number;
  bytes: number;
}

/** 2 KiB a second: slower than any line in use, faster than a server that wants to hold its clients. */
export const PACE: Pace = { ms: 30_000, bytes: 60 * 1024 };

/** Aborts its signal when too few bytes arrive. */
export class PaceWatch implements Disposable {
  readonly #abort = new AbortController();
  readonly #timer: ReturnType<typeof setInterval>;
  #arrived = 0;

  constructor({ ms, bytes }: Pace) {
    this.#timer = setInterval(() => {
      if (this.#arrived < bytes) this.#abort.abort();
      this.#arrived = 0;
    }, ms);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  count(bytes: number): void {
    this.#arrived += bytes;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
