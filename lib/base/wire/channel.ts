import { encodeFrame, FRAME_LIMIT } from "./frame.ts";
import { FrameReader } from "./reader.ts";
import { writeAll } from "./write.ts";

/** Two-way frames over one connection. */
export interface Channel {
  send(message: unknown): Promise<void>;
  next(): Promise<unknown | null>;
  close(): void;
}

/** A {@linkcode Channel} over a connection; sends are queued, so that frames of concurrent senders never mix. */
export class FrameChannel implements Channel {
  readonly reader: FrameReader;
  #conn: Deno.Conn;
  #limit: number;
  #tail: Promise<void> = Promise.resolve();

  constructor(conn: Deno.Conn, limit = FRAME_LIMIT) {
    this.#conn = conn;
    this.#limit = limit;
    this.reader = new FrameReader(conn, limit);
  }

  /** Resolves when the frame is in the kernel: awaiting it is the back-pressure. */
  send(message: unknown): Promise<void> {
    const frame = encodeFrame(message, this.#limit);
    const sent = this.#tail.then(() => writeAll(this.#conn, frame));
    this.#tail = sent.catch(() => {});
    return sent;
  }

  next(): Promise<unknown | null> {
    return this.reader.next();
  }

  /** Half-closes the write side once what is queued is out. */
  async finish(): Promise<void> {
    await this.#tail;
    await this.#conn.closeWrite().catch(() => {});
  }

  close(): void {
    try {
      this.#conn.close();
    } catch {
      // closed already
    }
  }
}
