import { NO_BYTES } from "../message/byte_buffer.ts";
import type { DataPiece } from "../websocket/mod.ts";
import type { BufferBudget, Receiving } from "./buffer_budget.ts";

/** Smallest buffer, in `bytes`. */
const BUFFER_MIN = 4 * 1024;

/** Collects the pieces of one message after another, within the budget for all that a VM's network buffers. */
export class MessageBuffer implements Receiving {
  readonly #budget: BufferBudget;
  readonly #max: number;
  /** counted against the budget; one buffer, since pieces may be of a byte each */
  #bytes: Uint8Array = NO_BYTES;
  #size = 0;
  #isCut = false;

  /** @param max longest message in `bytes` */
  constructor(budget: BufferBudget, max: number) {
    this.#budget = budget;
    this.#max = max;
  }

  /**
   * Adds a copy of a piece. The message is held until {@linkcode MessageBuffer.release}.
   *
   * @returns the message so far; `undefined` for one that is too long to be held, or arrives slowly while others need its
   * room
   */
  add({ bytes, isLast }: Pick<DataPiece, "bytes" | "isLast">): Uint8Array | undefined {
    if (this.#isCut || !this.#reserve(this.#size + bytes.length)) {
      this.end();
      return undefined;
    }
    if (isLast) this.#budget.complete(this);
    else this.#budget.begin(this);
    this.#bytes.set(bytes, this.#size);
    this.#size += bytes.length;
    return this.#bytes.subarray(0, this.#size);
  }

  /** Drops the message, for the next one. */
  release(): void {
    this.#budget.complete(this);
    this.#budget.bytes -= this.#bytes.length;
    this.#bytes = NO_BYTES;
    this.#size = 0;
    this.#isCut = false;
  }

  end(): void {
    this.release();
    this.#isCut = true;
  }

  /** Makes room for `size` bytes. @returns false when they may not be held */
  #reserve(size: number): boolean {
    if (size <= this.#bytes.length) return true;
    const room = Math.min(Math.max(size, this.#bytes.length * 2, BUFFER_MIN), this.#max);
    // While it waits for room itself, it is not the one to make it.
    this.#budget.complete(this);
    if (size > this.#max || !this.#budget.take(room - this.#bytes.length)) return false;
    const larger = new Uint8Array(room);
    larger.set(this.#bytes.subarray(0, this.#size));
    this.#bytes = larger;
    return true;
  }
}
