import type { Channel } from "../../base/wire/mod.ts";
import { WAITING_MAX } from "./limit.ts";

/** What is on its way to a guest. One that takes nothing for too long is let go of, with all that waits for it. */
export class Outbox {
  readonly #channel: Channel;
  readonly #timeoutMs: number;
  #waiting = 0;
  #timer?: ReturnType<typeof setTimeout>;

  constructor(channel: Channel, timeoutMs: number) {
    this.#channel = channel;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Sends a message; settles when the guest's side has taken it.
   *
   * @throws {FrameError} at once, for a message that no frame can hold
   */
  post(message: unknown): Promise<void> {
    const sent = this.#channel.send(message);
    if (this.#waiting++ === 0) this.#watch();
    return sent.finally(() => this.#taken());
  }

  /** Sends what the guest can do without: it is dropped when much waits already, and when the guest is gone. */
  notify(method: string, params?: object): void {
    if (this.#waiting >= WAITING_MAX) return;
    try {
      this.post({ jsonrpc: "2.0", method, ...(params && { params }) }).catch(() => {});
    } catch {
      // too large for a frame
    }
  }

  #taken(): void {
    clearTimeout(this.#timer);
    if (--this.#waiting > 0) this.#watch();
  }

  #watch(): void {
    this.#timer = setTimeout(() => this.#channel.close(), this.#timeoutMs);
  }
}
