import type { Channel } from "../../base/wire/mod.ts";
import { WAITING_MAX } from "./limit.ts";

/** Messages to a guest. The connection of a guest that reads nothing for too long is closed. */
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
   * Sends a message; settles when it is in the guest's socket.
   *
   * @throws {FrameError} synchronously: the message does not fit a frame
   */
  post(message: unknown): Promise<void> {
    const sent = this.#channel.send(message);
    if (this.#waiting++ === 0) this.#watch();
    return sent.finally(() => this.#handleSent());
  }

  /** Sends a notification; drops it when too many messages wait, or the guest has disconnected. */
  notify(method: string, params?: object): void {
    if (this.#waiting >= WAITING_MAX) return;
    try {
      this.post({ jsonrpc: "2.0", method, ...(params && { params }) }).catch(() => {});
    } catch {
      // too large for a frame
    }
  }

  #handleSent(): void {
    clearTimeout(this.#timer);
    if (--this.#waiting > 0) this.#watch();
  }

  #watch(): void {
    this.#timer = setTimeout(() => this.#channel.close(), this.#timeoutMs);
  }
}
