import { FRAME_LIMIT, FrameError } from "./frame.ts";

interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}

const CHUNK = 64 * 1024;

/**
 * Reads frames from a byte source whose bytes may be hostile. A length over the limit is refused before anything
 * is allocated for it, so a peer cannot make us reserve memory by naming a size.
 */
export class FrameReader {
  #source: ByteSource;
  #limit: number;
  #buffer = new Uint8Array(CHUNK);
  #start = 0;
  #end = 0;
  #decoder = new TextDecoder("utf-8", { fatal: true });

  constructor(source: ByteSource, limit = FRAME_LIMIT) {
    this.#source = source;
    this.#limit = limit;
  }

  /**
   * The next frame's JSON value, or null when the peer closed between frames.
   *
   * @throws {FrameError} on a length over the limit, bytes that are not UTF-8 JSON, or an end within a frame
   */
  async next(): Promise<unknown | null> {
    if (!await this.#fill(4)) {
      if (this.#end > this.#start) throw new FrameError("the peer closed within a frame header");
      return null;
    }
    const length = new DataView(this.#buffer.buffer, this.#start, 4).getUint32(0);
    if (length > this.#limit) {
      throw new FrameError(`a frame of ${length} bytes is over the limit of ${this.#limit}`);
    }
    if (!await this.#fill(4 + length)) throw new FrameError("the peer closed within a frame");
    const bytes = this.#buffer.subarray(this.#start + 4, this.#start + 4 + length);
    this.#start += 4 + length;
    try {
      return JSON.parse(this.#decoder.decode(bytes));
    } catch (cause) {
      throw new FrameError("a frame is not UTF-8 JSON", { cause });
    }
  }

  /** Bytes that came after the last frame: a wire that turns raw after its first frame continues with them. */
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
    // Doubling only as bytes arrive: a named length alone reserves nothing.
    const bigger = new Uint8Array(Math.min(Math.max(this.#buffer.length * 2, CHUNK), count + CHUNK));
    bigger.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = bigger;
    this.#end -= this.#start;
    this.#start = 0;
  }
}
