/** Deadlines of many connections on one timer: activity only writes a number. */
import { SWEEP_MS } from "./limit.ts";

/** The time at which a connection, a stream or an attempt is given up. */
export class Deadline {
  /** unix `ms`; `Infinity` while off */
  at = Infinity;

  constructor(readonly watch: DeadlineWatch, readonly expire: () => void) {}

  /** Expires in `ms` from now. */
  set(ms: number): void {
    this.at = this.watch.now + ms;
  }

  off(): void {
    this.at = Infinity;
  }
}

/** Checks every deadline twice a second, while there are any. */
export class DeadlineWatch {
  /** unix `ms`, at most {@linkcode SWEEP_MS} behind */
  now = Date.now();
  readonly #deadlines = new Set<Deadline>();
  #timer?: ReturnType<typeof setInterval>;

  constructor(readonly sweepMs = SWEEP_MS) {}

  /** @param expire called when the deadline has passed; it may set the deadline again */
  add(expire: () => void): Deadline {
    const deadline = new Deadline(this, expire);
    this.#deadlines.add(deadline);
    if (this.#timer === undefined) {
      this.now = Date.now();
      this.#timer = setInterval(() => this.#sweep(), this.sweepMs);
    }
    return deadline;
  }

  remove(deadline: Deadline): void {
    this.#deadlines.delete(deadline);
    if (this.#deadlines.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #sweep(): void {
    this.now = Date.now();
    for (const deadline of this.#deadlines) {
      if (deadline.at > this.now) continue;
      deadline.off();
      deadline.expire();
    }
  }
}
