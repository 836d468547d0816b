/**
 * Keeps the clock of a guest beside the host's, also when the host sleeps
 * (docs/design/contracts/07-guest-wire.md §7, "Clock").
 */
import { ignore } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay, HostSleep } from "../base/time/mod.ts";
import type { GuestLink } from "../machine/guest/mod.ts";

/** Times in `ms` (docs/design/contracts/14-limits.md §14). */
const TIMES = {
  /** after the guest is ready: its first programs have priority */
  first: 1000,
  /** between two readings */
  interval: 30_000,
  /** between looks whether the host slept; the guest's next connection or lookup is one too */
  look: 1000,
  /** after a shift, or an answer too slow to be of use */
  again: 1000,
  /** longest wait for the clock of a guest that was paused */
  resume: 1000,
};
/** Least deviation that is corrected, beyond the error of its reading, in `ms`. */
const TOLERANCE_MS = 10;
/** Largest error, in `ms`, of a reading that is not repeated soon. */
const ERROR_MAX_MS = 20;

/** Needs of a guest's clock beside its link. */
export interface GuestClockOptions {
  isStill(): boolean;
  onWake(sleptMs: number): void;
  times?: Partial<typeof TIMES>;
  sleep?: HostSleep;
}

type ClockLink = Pick<GuestLink, "booted" | "readClock" | "shiftClock" | "isOver">;

/** The clock of one guest. */
export class GuestClock {
  readonly #link: ClockLink;
  readonly #isStill: () => boolean;
  readonly #times: typeof TIMES;
  readonly #sleep: HostSleep;
  readonly #onWake: (sleptMs: number) => void;
  #right: Promise<void> = Promise.resolve();
  #last: Promise<void> = Promise.resolve();

  /**
   * @param isStill whether the guest is paused; it gets no requests then: after the hypervisor has paused its
   * machine for lack of disk space, sending to it breaks its vsock for good (lib/machine/vm/machine.ts)
   * @param onWake is called when the host's clock has jumped by `sleptMs` while the guest was there
   */
  constructor(
    link: ClockLink,
    { isStill, onWake, times, sleep = new HostSleep() }: GuestClockOptions,
  ) {
    this.#link = link;
    this.#isStill = isStill;
    this.#times = { ...TIMES, ...times };
    this.#sleep = sleep;
    this.#onWake = onWake;
  }

  /** Corrects it as long as the guest is there. */
  async follow(): Promise<void> {
    const { first, interval, again } = this.#times;
    try {
      await this.#link.booted();
      // Whatever the clock did before belongs to the boot, which has set the guest's.
      this.#sleep.look();
      this.#watch();
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

  /**
   * Settles when the guest's clock is right after a sleep of its host, or the guest has not
   * answered in time. Awaited before anything of the guest is let out: its certificates and
   * signatures would be of the wrong hour.
   */
  right(): Promise<void> {
    const sleptMs = this.#sleep.look();
    if (sleptMs !== 0) {
      this.#onWake(sleptMs);
      // A paused guest is corrected when it resumes.
      if (!this.#isStill()) this.#right = this.resumed();
    }
    return this.#right;
  }

  /** Looks for sleep of the host while the guest is there. */
  async #watch(): Promise<void> {
    while (!this.#link.isOver) {
      await backgroundDelay(this.#times.look);
      await this.right();
    }
  }

  /** Corrects a resumed guest's clock before its programs get requests, unless it does not answer. */
  async resumed(): Promise<void> {
    // The answer to another reading shows that the guest has moved its clock.
    const correcting = this.#correct()
      .then(async (isRight) => void (isRight || await this.#link.readClock())).catch(
        ignore("the clock is corrected later, or with the next boot"),
      );
    await Promise.race([correcting, backgroundDelay(this.#times.resume)]);
  }

  /**
   * One correction after the other: two that read the same deviation would move the clock by twice as much.
   */
  #correct(): Promise<boolean> {
    const correcting = this.#last.then(() => this.#correctOnce());
    this.#last = correcting.then(() => {}, () => {});
    return correcting;
  }

  /** @returns false where it should be read again soon */
  async #correctOnce(): Promise<boolean> {
    const { slowMs, errorMs } = await this.#link.readClock();
    if (Math.abs(slowMs) - errorMs <= TOLERANCE_MS) return errorMs <= ERROR_MAX_MS;
    await this.#link.shiftClock(slowMs);
    return false;
  }
}
