/**
 * Keeps a guest's clock at the host's time, also after the host has slept
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
  /** between checks for a sleep of the host; each connection or lookup of the guest checks too */
  look: 1000,
  /** after a correction, or a reading too slow to be of use */
  again: 1000,
  /** longest wait for the clock of a guest that was paused */
  resume: 1000,
};
/** Least deviation that is corrected, beyond the error of its reading, in `ms`. */
const TOLERANCE_MS = 10;
/** Largest error, in `ms`, of a reading that is not repeated soon. */
const ERROR_MAX_MS = 20;

/** Options of a guest's clock. */
export interface GuestClockOptions {
  /**
   * Tests whether the guest is paused. It gets no requests then: after the hypervisor has paused its machine
   * for lack of disk space, sending to it breaks its vsock for good (lib/machine/vm/machine.ts).
   */
  isPaused(): boolean;
  /** called when the host's clock has jumped by `sleptMs` while the guest was there */
  onWake(sleptMs: number): void;
  times?: Partial<typeof TIMES>;
  sleep?: HostSleep;
}

type ClockLink = Pick<GuestLink, "booted" | "readClock" | "shiftClock" | "isOver">;

/** The clock of one guest. */
export class GuestClock {
  readonly #link: ClockLink;
  readonly #isPaused: () => boolean;
  readonly #times: typeof TIMES;
  readonly #sleep: HostSleep;
  readonly #onWake: (sleptMs: number) => void;
  /** settles once the clock is corrected after the last sleep of the host */
  #corrected: Promise<void> = Promise.resolve();
  /** settles once the last correction has ended */
  #last: Promise<void> = Promise.resolve();

  constructor(
    link: ClockLink,
    { isPaused, onWake, times, sleep = new HostSleep() }: GuestClockOptions,
  ) {
    this.#link = link;
    this.#isPaused = isPaused;
    this.#times = { ...TIMES, ...times };
    this.#sleep = sleep;
    this.#onWake = onWake;
  }

  /** Corrects the clock for as long as the guest is connected. */
  async follow(): Promise<void> {
    const { first, interval, again } = this.#times;
    try {
      await this.#link.booted();
      // Earlier jumps do not count: the boot has set the guest's clock since.
      this.#sleep.look();
      this.#watch();
      await backgroundDelay(first);
      while (!this.#link.isOver) {
        const isRight = !this.#isPaused() && await this.#correct();
        await backgroundDelay(isRight ? interval : again);
      }
    } catch (error) {
      // A guest that ended, or was left, gets the time with its next boot configuration.
      log.debug(`clock of a guest: ${error}`);
    }
  }

  /**
   * Settles once the guest's clock is corrected after a sleep of the host, or the guest has not answered in
   * time. Awaited before anything of the guest is let out: its certificates and signatures would be of the
   * wrong hour.
   */
  corrected(): Promise<void> {
    const sleptMs = this.#sleep.look();
    if (sleptMs !== 0) {
      this.#onWake(sleptMs);
      // A paused guest is corrected when it resumes.
      if (!this.#isPaused()) this.#corrected = this.resumed();
    }
    return this.#corrected;
  }

  /** Checks for sleeps of the host for as long as the guest is connected. */
  async #watch(): Promise<void> {
    while (!this.#link.isOver) {
      await backgroundDelay(this.#times.look);
      await this.corrected();
    }
  }

  /** Corrects a resumed guest's clock before its programs get requests, unless it does not answer. */
  async resumed(): Promise<void> {
    const correcting = this.#correctAtOnce().catch(
      ignore("the clock is corrected later, or with the next boot"),
    );
    await Promise.race([correcting, backgroundDelay(this.#times.resume)]);
  }

  async #correctAtOnce(): Promise<void> {
    const isRight = await this.#correct();
    // The answer to another reading shows that the guest has moved its clock.
    if (!isRight) await this.#link.readClock();
  }

  /** Runs one correction at a time: two that read the same deviation would move the clock twice as far. */
  #correct(): Promise<boolean> {
    const correcting = this.#last.then(() => this.#correctOnce());
    this.#last = correcting.then(() => {}, ignore("the caller has the failure; the next correction goes on"));
    return correcting;
  }

  /** @returns false if the clock must be read again soon */
  async #correctOnce(): Promise<boolean> {
    const { slowMs, errorMs } = await this.#link.readClock();
    if (Math.abs(slowMs) - errorMs <= TOLERANCE_MS) return errorMs <= ERROR_MAX_MS;
    await this.#link.shiftClock(slowMs);
    return false;
  }
}
