/**
 * Longest work of a snapshot without a turn of the event loop, in `ms`: the service answers others meanwhile.
 */
const SLICE_MS = 8;

/** Gives way to other work in turns. */
export class Pace {
  #since = performance.now();

  /** @returns a promise when it is time to yield; to be awaited, and cheap to test for */
  tick(): Promise<void> | undefined {
    if (performance.now() - this.#since < SLICE_MS) return undefined;
    return new Promise((resolve) =>
      setTimeout(() => {
        this.#since = performance.now();
        resolve();
      })
    );
  }
}
