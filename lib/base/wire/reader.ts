import { NestingError, parseMessage } from "../json/mod.ts";
import { FRAME_DEPTH_MAX, FRAME_LIMIT, FrameCut, FrameError } from "./frame.ts";

/** Source of bytes, such as a connection. */
interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}

/** Buffer sizes in `bytes`: small at first, because most connections send one short frame; a busy one grows. */
const BUFFER_MIN = 1024;
const CHUNK = 64 * 1024;

const NO_BYTES = new Uint8Array(0);
/** Shared by all readers: it keeps no state between frames. */
const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads frames from an untrusted byte source. A length over the limit is rejected before any allocation, so a peer
 * cannot make us reserve memory by announcing a size.
 */
export class FrameReader {
  #source: ByteSource;
  #limit: number;
  #firstLimit: number;
  #buffer = NO_BYTES;
  #start = 0;
  #end = 0;
  /** the last read filled the buffer, so there is more to read */
  #wasFilled = false;
  #begun = false;

  /**
   * @param limit most `bytes` of a frame
   * @param firstLimit most `bytes` of the first frame, from a peer that is not known yet
   */
  constructor(source: ByteSource, limit = FRAME_LIMIT, firstLimit = limit) {
    this.#source = source;
    this.#limit = limit;
    this.#firstLimit = firstLimit;
  }

  /** a whole frame has arrived */
  get begun(): boolean {
    return this.#begun;
  }

  /**
   * Reads the next frame's JSON value; null after a close between frames.
   *
   * @throws {FrameError} on a length or a nesting over the limit, invalid UTF-8 or JSON, or a close within a frame
   */
  async next(): Promise<unknown | null> {
    if (!await this.#fill(4)) {
      if (this.#end > this.#start) throw new FrameCut("connection closed within a frame header");
      return null;
    }
    const length = new DataView(this.#buffer.buffer, this.#start, 4).getUint32(0);
    const limit = this.#begun ? this.#limit : this.#firstLimit;
    if (length > limit) {
      throw new FrameError(`frame of ${length} bytes exceeds the limit of ${limit}`);
    }
    if (!await this.#fill(4 + length)) throw new FrameCut("connection closed within a frame");
    const bytes = this.#buffer.subarray(this.#start + 4, this.#start + 4 + length);
    this.#start += 4 + length;
    this.#begun = true;
    try {
      return parseMessage(decoder.decode(bytes), FRAME_DEPTH_MAX);
    } catch (cause) {
      const isDeep = cause instanceof NestingError;
      throw new FrameError(isDeep ? `frame is ${cause.message}` : "frame is not valid UTF-8 JSON", { cause });
    }
  }

  /** Takes the buffered bytes after the last frame, for a wire that switches to raw bytes. */
  rest(): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffer.slice(this.#start, this.#end);
    this.#start = this.#end = 0;
    // The raw wire has buffers of its own, and may be open for hours.
    this.#buffer = NO_BYTES;
    return bytes;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown> {
    for (let value = await this.next(); value !== null; value = await this.next()) yield value;
  }

  /** Reads until `count` bytes are buffered; false when the source ends first. */
  async #fill(count: number): Promise<boolean> {
    while (this.#end - this.#start < count) {
      if (this.#start > 0 && this.#buffer.length - this.#end < this.#buffer.length / 2) this.#compact();
      const isSmall = this.#wasFilled && this.#buffer.length < CHUNK;
      if (isSmall || this.#buffer.length === this.#end) this.#grow(count);
      const room = this.#buffer.subarray(this.#end);
      const read = await this.#source.read(room);
      if (read === null) return false;
      this.#wasFilled = read === room.length;
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
    const size = this.#buffer.length < CHUNK ? this.#buffer.length * 4 : this.#buffer.length * 2;
    const grown = new Uint8Array(Math.min(Math.max(size, BUFFER_MIN), count + CHUNK));
    grown.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = grown;
    this.#end -= this.#start;
    this.#start = 0;
  }
}
