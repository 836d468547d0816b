import { Http2Fault } from "./fault.ts";
import { FLOW_CONTROL_ERROR, WINDOW_MAX } from "./frame.ts";

/** Flow-control window of the sending side (RFC 9113 §5.2). */
export class SendWindow {
  #remaining: number;
  #closed = false;
  readonly #waiters: (() => void)[] = [];

  constructor(initial: number) {
    this.#remaining = initial;
  }

  /** `bytes` that may be sent now; negative after some changes of settings. */
  get remaining(): number {
    return this.#remaining;
  }

  get closed(): boolean {
    return this.#closed;
  }

  take(count: number): void {
    this.#remaining -= count;
  }

  /** @throws {Http2Fault} for a window beyond the maximum */
  add(count: number): void {
    this.#remaining += count;
    if (this.#remaining > WINDOW_MAX) throw new Http2Fault("a window beyond the maximum", FLOW_CONTROL_ERROR);
    if (this.#remaining > 0) this.#wake();
  }

  /** Settles when more may be sent, or the window is closed. */
  more(): Promise<void> {
    if (this.#remaining > 0 || this.#closed) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}
