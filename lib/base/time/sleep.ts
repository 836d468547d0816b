/** Finds out that the host slept: its wall clock went on, and the clock of its programs stood still. */

/**
 * Least difference between the two clocks that counts, in `ms`: slewing by NTP
 * makes no more between two looks.
 */
const JUMP_MS = 2000;

/** The clocks of the host, as one process reads them. */
export class HostSleep {
  readonly #wall: () => number;
  readonly #running: () => number;
  #apart: number;

  /**
   * @param wall `ms` since the epoch
   * @param running `ms` of a clock that stands still while the host sleeps
   */
  constructor(wall: () => number = () => Date.now(), running: () => number = () => performance.now()) {
    this.#wall = wall;
    this.#running = running;
    this.#apart = wall() - running();
  }

  /**
   * `ms` by which the wall clock has jumped since the last look: the host slept, or
   * its clock was set; 0: it has not.
   */
  look(): number {
    const apart = this.#wall() - this.#running();
    const jump = apart - this.#apart;
    this.#apart = apart;
    return Math.abs(jump) < JUMP_MS ? 0 : Math.round(jump);
  }
}
