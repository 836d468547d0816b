/**
 * The private wire between the aggregator and whoever started it: HTTP requests go out by it, because the aggregator has
 * no network of its own; and what the nine methods of the NDJSON protocol cannot say (progress, cancellation, a changed
 * catalogue) goes by it too. A frame is u32 big-endian length of the rest, u8 kind, u32 big-endian id, payload.
 */
import { writeAll } from "../../base/wire/mod.ts";

/** What a frame says; the id is that of an exchange, except where another is named. */
export const Kind = {
  /** → host: {@linkcode Open} as JSON, a newline, the body */
  Open: 1,
  /** → host: nobody waits for this answer any more */
  Cancel: 2,
  /** → host: u32, bytes that may be sent beyond those allowed before */
  Credit: 3,
  /** → aggregator: {@linkcode Head} as JSON */
  Head: 4,
  /** → aggregator: bytes of the body */
  Data: 5,
  /** → aggregator: the body is complete */
  End: 6,
  /** → aggregator: why there is no answer, or no more of it, as text */
  Fail: 7,
  /** → aggregator: the request of this id is cancelled */
  Abort: 8,
  /** → host: `Progress` of the request of this id as JSON */
  Progress: 9,
  /** → host: lists changed; the id is the sum of their {@linkcode LIST_BITS} */
  Changed: 10,
  /** → aggregator, and back as it came: what was sent before it has arrived */
  Sync: 11,
} as const;
export type Kind = typeof Kind[keyof typeof Kind];

/** Which lists changed. */
export const LIST_BITS = { tools: 1, resources: 2, prompts: 4 } as const;

/** An HTTP request to one of the defined servers. */
export interface Open {
  server: string;
  method: string;
  url: string;
  headers: Record<string, string>;
}

/** Status and headers of an answer. */
export interface Head {
  status: number;
  headers: [string, string][];
}

export interface Frame {
  kind: number;
  id: number;
  payload: Uint8Array<ArrayBuffer>;
}

/** Most bytes of a frame: a body of 1 MB, with room for what JSON's escapes add to it. */
export const FRAME_BYTES_MAX = 4 * 1024 * 1024;
/** Bytes of a body that may be under way before the reader asks for more. */
export const WINDOW = 256 * 1024;
/** Bytes of one data frame. */
export const DATA_BYTES = 64 * 1024;
const HEADER = 9;
const CHUNK = 64 * 1024;

/** Frames over one connection. Those sent in one turn of the event loop go out in one piece. */
export class FrameWire {
  readonly #conn: Deno.Conn;
  readonly #encoder = new TextEncoder();
  #waiting: { kind: Kind; id: number; payload: string | Uint8Array }[] = [];
  #writing?: Promise<void>;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** Queues a frame. One that cannot be sent any more is dropped: the reader of frames sees the end. */
  send(kind: Kind, id: number, payload: string | Uint8Array = ""): void {
    this.#waiting.push({ kind, id, payload });
    this.#writing ??= this.#drain();
  }

  /**
   * Hands every frame to `take` as it arrives, as many at once as there are. Ends at the end of the connection, at the
   * first frame that is none, and when `take` answers false: nothing after it can be trusted.
   *
   * @param take the payload is good only until it returns
   */
  async receive(take: (frame: Frame) => boolean): Promise<void> {
    let buffer = new Uint8Array(CHUNK);
    let view = new DataView(buffer.buffer);
    let start = 0;
    let end = 0;
    while (true) {
      while (end - start >= HEADER) {
        const length = view.getUint32(start);
        if (length < HEADER - 4 || length > FRAME_BYTES_MAX) return;
        if (end - start < 4 + length) break;
        const payload = buffer.subarray(start + HEADER, start + 4 + length);
        if (!take({ kind: view.getUint8(start + 4), id: view.getUint32(start + 5), payload })) return;
        start += 4 + length;
      }
      if (start === end) start = end = 0;
      if (end === buffer.length) {
        const room = start > 0 ? buffer : new Uint8Array(buffer.length * 2);
        room.set(buffer.subarray(start, end));
        buffer = room;
        view = new DataView(buffer.buffer);
        end -= start;
        start = 0;
      }
      const read = await this.#conn.read(buffer.subarray(end)).catch(() => null);
      if (read === null) return;
      end += read;
    }
  }

  close(): void {
    try {
      this.#conn.close();
    } catch {
      // closed already
    }
  }

  async #drain(): Promise<void> {
    await Promise.resolve();
    try {
      while (this.#waiting.length > 0) {
        const frames = this.#waiting;
        this.#waiting = [];
        await writeAll(this.#conn, this.#encode(frames));
      }
    } catch {
      this.close();
    }
    this.#writing = undefined;
  }

  #encode(frames: { kind: Kind; id: number; payload: string | Uint8Array }[]): Uint8Array {
    let room = 0;
    // UTF-8 takes at most three bytes for a UTF-16 unit.
    for (const { payload } of frames) room += HEADER + payload.length * (typeof payload === "string" ? 3 : 1);
    const bytes = new Uint8Array(room);
    const view = new DataView(bytes.buffer);
    let at = 0;
    for (const { kind, id, payload } of frames) {
      const body = bytes.subarray(at + HEADER);
      let length = payload.length;
      if (typeof payload === "string") length = this.#encoder.encodeInto(payload, body).written;
      else body.set(payload);
      view.setUint32(at, HEADER - 4 + length);
      view.setUint8(at + 4, kind);
      view.setUint32(at + 5, id);
      at += HEADER + length;
    }
    return bytes.subarray(0, at);
  }
}
