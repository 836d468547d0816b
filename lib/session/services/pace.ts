/** Docker's usual time between health checks, in `ms`; an image may ask for longer ones. */
const USUAL_MS = 30_000;
/**
 * Checks that may come sooner; each one that waits that long allows another
 * (docs/design/contracts/14-limits.md §14).
 */
const QUICK_MAX = 120;

/**
 * Times between the health checks of a program. Each check is an event, and an image may want one every
 * second for as long as its VM lives: one that brings nothing new waits twice as long as the one before, and
 * quick ones are few.
 */
export class CheckPace {
  #quick = QUICK_MAX;
  #last = 0;

  /**
   * @param own time that the image wants, in `ms`
   * @param isSettled the last check found the state that is known
   */
  next(own: number, isSettled: boolean): number {
    const wanted = isSettled ? Math.max(own, Math.min(2 * this.#last, USUAL_MS)) : own;
    const wait = this.#quick > 0 ? wanted : Math.max(wanted, USUAL_MS);
    this.#quick = wait < USUAL_MS ? this.#quick - 1 : Math.min(this.#quick + 1, QUICK_MAX);
    return this.#last = wait;
  }
}
