import { FRAME_LIMIT, FrameError } from "./frame.ts";

/** Source of bytes, such as a connection. */
interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}

/** Initial buffer size, in `bytes`. */
const CHUNK = 64 * 1024;

/**
 * Reads frames from an untrusted byte source. A length over the limit is rejected before any allocation, so a peer
 * cannot make us reserve memory by announcing a size.
 */
export class FrameReader {
  #source: ByteSource;
  #limit: number;
  #buffer = new Uint8Array(CHUNK);
  #start = 0;
  #end = 0;
  #decoder = new TextDecoder("utf-8", { fatal: true });
  #begun = false;

  constructor(source: ByteSource, limit = FRAME_LIMIT) {
    this.#source = source;
    this.#limit = limit;
  }

  /** a whole frame has arrived */
  get begun(): boolean {
    return this.#begun;
  }

  /**
   * Reads the next frame's JSON value; null after a close between frames.
   *
   * @throws {FrameError} on a length over the limit, invalid UTF-8 or JSON, or a close within a frame
   */
  async next(): Promise<unknown | null> {
    if (!await this.#fill(4)) {
      if (this.#end > this.#start) throw new FrameError("connection closed within a frame header");
      return null;
    }
    const length = new DataView(this.#buffer.buffer, this.#start, 4).getUint32(0);
    if (length > this.#limit) {
      throw new FrameError(`frame of ${length} bytes exceeds the limit of ${this.#limit}`);
    }
    if (!await this.#fill(4 + length)) throw new FrameError("connection closed within a frame");
    const bytes = this.#buffer.subarray(this.#start + 4, this.#start + 4 + length);
    this.#start += 4 + length;
    this.#begun = true;
    try {
      return JSON.parse(this.#decoder.decode(bytes));
    } catch (cause) {
      throw new FrameError("frame is not valid UTF-8 JSON", { cause });
    }
  }

  /** Takes the buffered bytes after the last frame, for a wire that switches to raw bytes. */
  rest(): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffer.slice(this.#start, this.#end);
    this.#start = this.#end = 0;
    return bytes;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown> {
    for (let value = await this.next(); value !== null; value = await this.next()) yield value;
  }

  /** Reads until `count` bytes are buffered; false when the source ends first. */
  async #fill(count: number): Promise<boolean> {
    while (this.#end - this.#start < count) {
      if (this.#start > 0 && this.#buffer.length - this.#end < CHUNK / 2) this.#compact();
      if (this.#buffer.length === this.#end) this.#grow(count);
      const read = await this.#source.read(this.#buffer.subarray(this.#end));
      if (read === null) return false;
      this.#end += read;
    }
    return true;
  }

  #compact() {
    this.#buffer.copyWithin(0, this.#start, this.#end);
    this.#end -= this.#start;
    this.#start = 0;
  }

  #grow(count: number) {
    // Doubles only as bytes arrive: an announced length alone reserves nothing.
    const grown = new Uint8Array(Math.min(Math.max(this.#buffer.length * 2, CHUNK), count + CHUNK));
    grown.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = grown;
    this.#end -= this.#start;
    this.#start = 0;
  }
}
