/** Keeps the clock of a guest beside the host's (docs/design/contracts/07-guest-wire.md §7, "Clock"). */
import { ignore } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay } from "../base/time/mod.ts";
import type { GuestLink } from "../machine/guest/mod.ts";

/** Times in `ms` (docs/design/contracts/14-limits.md §14). */
const TIMES = {
  /** after the guest is ready: its first programs have priority */
  first: 1000,
  /** between two readings: a host that slept leaves a guest that is slow by that */
  interval: 30_000,
  /** after a shift, or an answer too slow to be of use */
  again: 1000,
  /** longest wait for the clock of a guest that was paused */
  resume: 1000,
};
/** Least deviation that is corrected, beyond the error of its reading, in `ms`. */
const TOLERANCE_MS = 10;
/** Largest error, in `ms`, of a reading that is not repeated soon. */
const ERROR_MAX_MS = 20;

type ClockLink = Pick<GuestLink, "booted" | "readClock" | "shiftClock" | "isOver">;

/** The clock of one guest. */
export class GuestClock {
  readonly #link: ClockLink;
  readonly #isStill: () => boolean;
  readonly #times: typeof TIMES;

  /**
   * @param isStill whether the guest is paused; it gets no requests then: after the hypervisor has paused its
   * machine for lack of disk space, sending to it breaks its vsock for good (lib/machine/vm/machine.ts)
   */
  constructor(link: ClockLink, isStill: () => boolean, times: Partial<typeof TIMES> = {}) {
    this.#link = link;
    this.#isStill = isStill;
    this.#times = { ...TIMES, ...times };
  }

  /** Corrects it as long as the guest is there. */
  async follow(): Promise<void> {
    const { first, interval, again } = this.#times;
    try {
      await this.#link.booted();
      await backgroundDelay(first);
      while (!this.#link.isOver) {
        const isRight = !this.#isStill() && await this.#correct();
        await backgroundDelay(isRight ? interval : again);
      }
    } catch (error) {
      // A guest that ended, or was left, gets the time with its next boot configuration.
      log.debug(`clock of a guest: ${error}`);
    }
  }

  /** Corrects a resumed guest's clock before its programs get requests, unless it does not answer. */
  async resumed(): Promise<void> {
    const correcting = this.#correct().catch(ignore("the clock is corrected later, or with the next boot"));
    await Promise.race([correcting, backgroundDelay(this.#times.resume)]);
  }

  /** @returns false where it should be read again soon */
  async #correct(): Promise<boolean> {
    const { slowMs, errorMs } = await this.#link.readClock();
    if (Math.abs(slowMs) - errorMs <= TOLERANCE_MS) return errorMs <= ERROR_MAX_MS;
    await this.#link.shiftClock(slowMs);
    return false;
  }
}
