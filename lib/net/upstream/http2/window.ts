import { MessageFault } from "../../fault.ts";
import { WINDOW_MAX } from "./frame.ts";

/** How much may be sent (RFC 9113 §5.2), with those who wait for more. */
export class SendWindow {
  #left: number;
  #closed = false;
  readonly #waiting: (() => void)[] = [];

  constructor(left: number) {
    this.#left = left;
  }

  /** Bytes that may be sent now; a change of settings can make it negative. */
  get left(): number {
    return this.#left;
  }

  get closed(): boolean {
    return this.#closed;
  }

  take(count: number): void {
    this.#left -= count;
  }

  /** @throws {MessageFault} for a window that is larger than one may be */
  add(count: number): void {
    this.#left += count;
    if (this.#left > WINDOW_MAX) throw new MessageFault("a window is larger than allowed");
    if (this.#left > 0) this.#wake();
  }

  /** Settles when there is more, or never will be. */
  more(): Promise<void> {
    if (this.#left > 0 || this.#closed) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
