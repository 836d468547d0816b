import { HTTP2_CONNECTIONS_MAX, HTTP2_EXCHANGES_MAX } from "../../limit.ts";

/** Connections and exchanges of all guest connections of one VM that speak HTTP/2. */
export class Http2Room {
  #connections = 0;
  #exchanges = 0;

  /** @returns false without room for another connection; else {@linkcode leave} gives its room back */
  enter(): boolean {
    if (this.#connections >= HTTP2_CONNECTIONS_MAX) return false;
    this.#connections++;
    return true;
  }

  leave(): void {
    this.#connections--;
  }

  /** True while another exchange may begin. */
  get hasRoom(): boolean {
    return this.#exchanges < HTTP2_EXCHANGES_MAX;
  }

  /** Counts an exchange until it has ended. */
  async hold(exchange: () => Promise<void>): Promise<void> {
    this.#exchanges++;
    try {
      await exchange();
    } finally {
      this.#exchanges--;
    }
  }
}

/** A number of events at once, and a rate after that; the rest is a flood. */
export class Allowance {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #since: number;

  constructor(burst: number, perSecond: number, now: number) {
    this.#burst = this.#left = burst;
    this.#perSecond = perSecond;
    this.#since = now;
  }

  /** Gives one back. */
  give(): void {
    this.#left = Math.min(this.#burst, this.#left + 1);
  }

  /** Takes one. @param now unix `ms` @returns false when it is used up */
  take(now: number): boolean {
    if (this.#left < 1) {
      this.#left = Math.min(this.#burst, this.#left + (now - this.#since) / 1000 * this.#perSecond);
      this.#since = now;
    }
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
