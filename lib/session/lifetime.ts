/**
 * Longest life of a machine, where corp sets one (docs/design/contracts/03-settings.md §3, "Corp limits").
 */

/** Ends a machine when its time is over; a new limit counts from the same start. */
export class Lifetime implements Disposable {
  readonly #end: (minutes: number) => void;
  readonly #minuteMs: number;
  readonly #started = performance.now();
  #timer?: ReturnType<typeof setTimeout>;

  /** @param end called once the time is over */
  constructor(end: (minutes: number) => void, minuteMs = 60_000) {
    this.#end = end;
    this.#minuteMs = minuteMs;
  }

  /** Puts a limit in force, in minutes; `undefined` for none. */
  use(minutes: number | undefined): void {
    clearTimeout(this.#timer);
    if (minutes === undefined) return;
    const rest = this.#started + minutes * this.#minuteMs - performance.now();
    // Timers take 31 bits; the limit of the schema is below that.
    this.#timer = setTimeout(() => this.#end(minutes), Math.max(0, rest));
    Deno.unrefTimer(this.#timer as unknown as number);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
