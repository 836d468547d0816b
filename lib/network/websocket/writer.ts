import type { BufferedConnection } from "../connection.ts";
import { decodeLatin1 } from "../message/latin1.ts";
import { applyMask, formatFrameHead, OPCODE, type Side } from "./frame.ts";

/** Writes frames to one side, one at a time. */
export class FrameWriter {
  readonly #connection: BufferedConnection;
  readonly #masks?: MaskSource;
  /** settles when every frame so far is written */
  #written: Promise<void> = Promise.resolve();
  /** within a message whose first frame is written */
  #isOpen = false;
  /** messages of sbx that wait for the end of an open message */
  #waiting: string[] = [];

  /** @param to the side that reads the frames; those to an upstream are masked, with masks that no guest knows */
  constructor(connection: BufferedConnection, to: Side) {
    this.#connection = connection;
    if (to === "upstream") this.#masks = new MaskSource();
  }

  /**
   * Writes a part of a data message; an empty one only ends it.
   *
   * @param bytes are overwritten
   * @throws {ConnectionLost}
   */
  async writeData(isText: boolean, bytes: Uint8Array, isLast: boolean): Promise<void> {
    if (bytes.length === 0 && !isLast) return;
    const opcode = this.#isOpen ? OPCODE.continuation : isText ? OPCODE.text : OPCODE.binary;
    this.#isOpen = !isLast;
    await this.#write(opcode, bytes, isLast);
    while (!this.#isOpen && this.#waiting.length > 0) await this.writeText(this.#waiting.shift()!);
  }

  /** Writes a text message of sbx, between two messages of the other side. @throws {ConnectionLost} */
  async writeText(text: string): Promise<void> {
    if (this.#isOpen) this.#waiting.push(text);
    else await this.#write(OPCODE.text, new TextEncoder().encode(text), true);
  }

  /** Writes a control frame, also within a message. @throws {ConnectionLost} */
  writeControl(kind: "close" | "ping" | "pong", payload: Uint8Array): Promise<void> {
    return this.#write(OPCODE[kind], payload, true);
  }

  /** Closes the writing side behind every frame so far. */
  end(): void {
    this.#enqueue(() => this.#connection.closeWrite()).catch(() => {});
  }

  #write(opcode: number, bytes: Uint8Array, isLast: boolean): Promise<void> {
    return this.#enqueue(() => {
      const mask = this.#masks?.next();
      if (mask) applyMask(bytes, mask, 0);
      return this.#connection.writeJoined(
        decodeLatin1(formatFrameHead(opcode, isLast, bytes.length, mask)),
        bytes,
      );
    });
  }

  #enqueue(write: () => Promise<void>): Promise<void> {
    const done = this.#written.then(write);
    this.#written = done.catch(() => {});
    return done;
  }
}

/** Random masking keys, made many at once. */
class MaskSource {
  #bytes = new Uint8Array(0);
  #at = 0;

  next(): Uint8Array {
    if (this.#at === this.#bytes.length) {
      this.#bytes = crypto.getRandomValues(new Uint8Array(MASK_BYTES));
      this.#at = 0;
    }
    return this.#bytes.subarray(this.#at, this.#at += 4);
  }
}

/** `bytes` of random masks made at once. */
const MASK_BYTES = 256;
