/** Frames over a connection: sent, received, and encoded. */
import { ignore } from "../error/mod.ts";
import { NestingError, parseMessage } from "../json/mod.ts";

/** Two-way framed messages over one connection. */
export interface Channel {
  send(message: unknown): Promise<void>;
  next(): Promise<unknown | null>;
  close(): void;
}

/**
 * {@linkcode Channel} over a connection. Sends are queued, so frames of concurrent senders never interleave.
 */
export class FrameChannel implements Channel {
  readonly reader: FrameReader;
  #conn: Deno.Conn;
  #sendLimit: number;
  #tail: Promise<void> = Promise.resolve();

  /** Limits as in {@linkcode FrameReader}. @param sendLimit most `bytes` of a sent frame */
  constructor(conn: Deno.Conn, limit = FRAME_LIMIT, firstLimit = limit, sendLimit = limit) {
    this.#conn = conn;
    this.#sendLimit = sendLimit;
    this.reader = new FrameReader(conn, limit, firstLimit);
  }

  /**
   * Sends a message; resolves when the kernel has accepted the frame, so awaiting it applies back-pressure.
   */
  send(message: unknown): Promise<void> {
    const frame = encodeFrame(message, this.#sendLimit);
    const sending = this.#tail.then(() => writeAll(this.#conn, frame));
    this.#tail = sending.catch(ignore("its sender has the error"));
    return sending;
  }

  next(): Promise<unknown | null> {
    return this.reader.next();
  }

  /** Half-closes the write side after the queued frames. */
  async finish(): Promise<void> {
    await this.#tail;
    await this.#conn.closeWrite().catch(ignore("the other side has left"));
  }

  close(): void {
    closeQuietly(this.#conn);
  }
}

/** Writes every byte; a plain `write` may write fewer. */
export async function writeAll(
  to: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await to.write(bytes.subarray(at));
}

/**
 * Reads exactly `count` bytes and none behind them; a plain `read` may read fewer.
 *
 * @returns undefined at an early end
 */
export async function readExactly(
  from: { read(bytes: Uint8Array): Promise<number | null> },
  count: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count;) {
    const read = await from.read(bytes.subarray(at));
    if (read === null) return undefined;
    at += read;
  }
  return bytes;
}

/** Closes an object that may be closed already, or not open yet. */
export function closeQuietly(closable: { close(): unknown } | undefined): void {
  try {
    closable?.close();
  } catch {
    // closed already
  }
}

/** Maximum size of one frame, in `bytes` (docs/design/contracts/07-guest-wire.md §7). */
export const FRAME_LIMIT = 2 * 1024 * 1024;

/**
 * Nesting levels of one frame: an MCP result of 200 levels in its messages
 * (docs/design/contracts/14-limits.md §14).
 */
const FRAME_DEPTH_MAX = 256;

/** Framing violation by the peer. Later bytes cannot be trusted, so the connection is closed. */
export class FrameError extends Error {
  override name = "FrameError";
}

/** The peer went away within a frame. */
export class FrameCut extends FrameError {}

const encoder = new TextEncoder();

/** Encodes one frame: u32 big-endian length, then `message` as UTF-8 JSON. */
export function encodeFrame(message: unknown, limit = FRAME_LIMIT): Uint8Array<ArrayBuffer> {
  const text = JSON.stringify(message);
  // UTF-8 takes at most 3 bytes per UTF-16 unit; encodeInto saves the copy of encode + set.
  const frame = new Uint8Array(4 + text.length * 3);
  const { written } = encoder.encodeInto(text, frame.subarray(4));
  if (written > limit) throw new FrameError(`frame of ${written} bytes exceeds the limit of ${limit}`);
  new DataView(frame.buffer).setUint32(0, written);
  return frame.subarray(0, 4 + written);
}

/** Source of bytes, such as a connection. */
interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}

/**
 * Buffer sizes in `bytes`: small at first, because most connections send one short frame; a busy one grows.
 */
const BUFFER_MIN = 1024;
const CHUNK = 64 * 1024;

const NO_BYTES = new Uint8Array(0);
/** Shared by all readers: it keeps no state between frames. */
const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads frames from an untrusted byte source. A length over the limit is rejected before any allocation, so a
 * peer cannot make us reserve memory by announcing a size.
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
   * @throws {FrameError} on a length or a nesting over the limit, invalid UTF-8 or
   * JSON, or a close within a frame
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
