/** Timeouts of many connections with one timer: whoever moves notes the time in a number, and nothing else. */
import { SWEEP_MS } from "./limit.ts";

/** When something is given up, unless it moves before. */
export class Deadline {
  /** unix milliseconds; `Infinity` while nothing is waited for */
  at = Infinity;

  constructor(readonly watch: Watch, readonly expire: () => void) {}

  /** Begins anew: it expires in `ms` from now. */
  set(ms: number): void {
    this.at = this.watch.now + ms;
  }

  off(): void {
    this.at = Infinity;
  }
}

/** Looks at every deadline twice a second, while there are any. */
export class Watch {
  /** unix milliseconds, at most {@linkcode SWEEP_MS} behind */
  now = Date.now();
  readonly #deadlines = new Set<Deadline>();
  #timer?: ReturnType<typeof setInterval>;

  constructor(readonly sweepMs = SWEEP_MS) {}

  /** @param expire called when time is up; it may set the deadline anew */
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
