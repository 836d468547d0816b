const MINUTE_MS = 60_000;

/** A limit per minute of the clock. */
export class PerMinute {
  readonly #max: number;
  #minute = 0;
  #count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts one. @returns whether it is within the limit */
  take(): boolean {
    const minute = Math.floor(Date.now() / MINUTE_MS);
    if (minute !== this.#minute) this.#count = 0;
    this.#minute = minute;
    return ++this.#count <= this.#max;
  }
}
