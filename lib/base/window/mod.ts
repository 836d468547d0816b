/** Flow control for a connection that has none of its own, such as a WebSocket. */

/**
 * `bytes` that one side of a program's socket sends before the other has taken them
 * (docs/design/contracts/14-limits.md §14).
 */
export const PROGRAM_WINDOW = 1024 * 1024;

/** One direction of a connection. A piece is sent whole as soon as anything of the window is free. */
export class Window {
  readonly #size: number;
  #free: number;
  #waiting = Promise.withResolvers<void>();
  #isClosed = false;

  /** @param size `bytes` that may be under way */
  constructor(size: number) {
    this.#size = size;
    this.#free = size;
  }

  /** Waits until a piece may be sent. @returns false: the window was closed */
  async claim(bytes: number): Promise<boolean> {
    while (this.#free <= 0 && !this.#isClosed) await this.#waiting.promise;
    this.#free -= bytes;
    return !this.#isClosed;
  }

  /** The other side has taken so many. */
  release(bytes: number): void {
    this.#free = Math.min(this.#size, this.#free + bytes);
    this.#wake();
  }

  /** Ends every wait: the connection is gone. */
  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  #wake(): void {
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }
}
