import { ignore } from "../error/mod.ts";
import { encodeFrame, FRAME_LIMIT } from "./frame.ts";
import { FrameReader } from "./reader.ts";

/** Two-way framed messages over one connection. */
export interface Channel {
  send(message: unknown): Promise<void>;
  next(): Promise<unknown | null>;
  close(): void;
}

/** {@linkcode Channel} over a connection. Sends are queued, so frames of concurrent senders never interleave. */
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

  /** Sends a message; resolves when the kernel has accepted the frame, so awaiting it applies back-pressure. */
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

/** Closes an object that may be closed already, or not open yet. */
export function closeQuietly(closable: { close(): unknown } | undefined): void {
  try {
    closable?.close();
  } catch {
    // closed already
  }
}
