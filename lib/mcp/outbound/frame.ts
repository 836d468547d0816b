/**
 * The private wire between the aggregator and its parent (docs/design/contracts/08-mcp.md §8, "Privilege
 * boundary"). Carries HTTP requests, because the aggregator has no network of its own, and the messages that
 * the NDJSON protocol lacks: progress, cancellation, changed lists. A frame is u32 big-endian length of the
 * rest, u8 kind, u32 big-endian id, payload.
 */
import { setImmediate } from "node:timers";
import { closeQuietly, writeAll } from "../../base/wire/mod.ts";

/** Kinds of frames; the id is that of an HTTP request, unless noted. */
export const FrameKind = {
  /** → host: {@linkcode RequestHead} as JSON, a newline, the body */
  Open: 1,
  /** → host: the response is not needed any more */
  Cancel: 2,
  /** → host: u32, additional bytes of the body that may be sent */
  Credit: 3,
  /** → aggregator: {@linkcode ResponseHead} as JSON */
  Head: 4,
  /** → aggregator: bytes of the body */
  Data: 5,
  /** → aggregator: the body is complete */
  End: 6,
  /** → aggregator: reason why the response is missing or incomplete, as text */
  Fail: 7,
  /** → aggregator: cancels a request of the NDJSON protocol; the id is that request's */
  Abort: 8,
  /** → host: `Progress` as JSON of a request of the NDJSON protocol; the id is that request's */
  Progress: 9,
  /** → host: lists changed; the id is the sum of their {@linkcode LIST_BITS} */
  Changed: 10,
  /** → aggregator, echoed: everything sent before it has arrived */
  Sync: 11,
  /** → host: `ServerNotice` as JSON; the id is 0 */
  Notice: 12,
  /** → host: `ServerRequest` as JSON; the id is that request's */
  Request: 13,
  /** → aggregator: `{result}` or `{error}` as JSON, the answer to a `Request` */
  Answer: 14,
  /** → host: the answer to a `Request` is not needed any more */
  Withdraw: 15,
} as const;
export type FrameKind = typeof FrameKind[keyof typeof FrameKind];

/** Bit of each list in a `Changed` frame. */
export const LIST_BITS = { tools: 1, resources: 2, prompts: 4 } as const;

/** Head of an HTTP request to one of the defined servers. */
export interface RequestHead {
  server: string;
  method: string;
  url: string;
  headers: Record<string, string>;
}

/** Status and headers of a response. */
export interface ResponseHead {
  status: number;
  headers: [string, string][];
}

export interface Frame {
  kind: number;
  id: number;
  payload: Uint8Array<ArrayBuffer>;
}

/** `bytes` of a frame: a body of 1 MB, with room for JSON escapes. */
export const FRAME_BYTES_MAX = 4 * 1024 * 1024;
/** `bytes` of a body in transit before the reader grants more. */
export const WINDOW = 256 * 1024;
/** `bytes` of one data frame. */
export const DATA_BYTES = 64 * 1024;
const HEADER = 9;
const CHUNK = 64 * 1024;

/** Frames over one connection. Frames sent in one turn of the event loop are written in one piece. */
export class FrameWire {
  readonly #conn: Deno.Conn;
  readonly #encoder = new TextEncoder();
  #waiting: { kind: FrameKind; id: number; payload: string | Uint8Array }[] = [];
  #writing?: Promise<void>;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** Queues a frame. Frames after the connection has failed are dropped; `receive` ends then. */
  send(kind: FrameKind, id: number, payload: string | Uint8Array = ""): void {
    this.#waiting.push({ kind, id, payload });
    this.#writing ??= this.#drain();
  }

  /**
   * Passes every frame to `handle` as it arrives. Ends with the connection, at the first malformed frame, and
   * when `handle` returns false: nothing after it can be trusted.
   *
   * @param handle receives a payload that is valid only until it returns
   */
  async receive(handle: (frame: Frame) => boolean): Promise<void> {
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
        if (!handle({ kind: view.getUint8(start + 4), id: view.getUint32(start + 5), payload })) return;
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
    closeQuietly(this.#conn);
  }

  async #drain(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
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

  #encode(frames: { kind: FrameKind; id: number; payload: string | Uint8Array }[]): Uint8Array {
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

/** A refusal whose message may be shown by the aggregator. */
export class OutboundRefusal extends Error {}
