/** A client of HTTP/2 that writes hand-made frames, as a program of a guest. */
import { closeQuietly } from "../../lib/base/wire/mod.ts";
import * as h2 from "../../lib/network/http2/mod.ts";
import type { Header } from "../../lib/network/message/header.ts";
import type { TestNet } from "./net.ts";

/** Host that the requests name. */
export const H2_HOST = "api.example.com";

/** A received frame; that of a header block has its fields. */
export interface ClientFrame {
  type: number;
  flags: number;
  stream: number;
  payload: Uint8Array;
  fields?: Header[];
}

/** What a test waits for: the whole response of a stream, its reset, or the end of the connection. */
export interface StreamEnd {
  status?: number;
  fields?: Header[];
  body: string;
  trailers?: Header[];
  /** error code of a RST_STREAM */
  reset?: number;
  /** error code of a GOAWAY */
  goAway?: number;
  closed?: true;
}

/** One connection. */
export class RawHttp2 implements Disposable {
  readonly #decoder = new h2.HeaderDecoder();
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array();

  constructor(readonly conn: Deno.Conn) {}

  /** Opens a connection without TLS, and greets. @param first frames behind the preface */
  static async open(net: TestNet, first = [h2.settingsFrame([])], port = 80): Promise<RawHttp2> {
    const client = new RawHttp2(await net.connect(port));
    await client.send(h2.PREFACE, ...first);
    return client;
  }

  async send(...frames: Uint8Array[]): Promise<void> {
    for (const frame of frames) {
      for (let at = 0; at < frame.length;) at += await this.conn.write(frame.subarray(at));
    }
  }

  /** The next frame; `undefined` at the end of the connection. */
  async frame(): Promise<ClientFrame | undefined> {
    const head = await this.#take(h2.FRAME_HEAD);
    if (!head) return undefined;
    const payload = await this.#take(head[0] << 16 | head[1] << 8 | head[2]);
    if (!payload) return undefined;
    const frame = {
      type: head[3],
      flags: head[4],
      stream: new DataView(head.buffer, head.byteOffset).getUint32(5),
      payload,
    };
    return frame.type === h2.HEADERS ? { ...frame, fields: this.#decoder.decode(payload) } : frame;
  }

  /** The next frame of a type; those before it are dropped. */
  async next(type: number): Promise<ClientFrame> {
    while (true) {
      const frame = await this.frame();
      if (!frame) throw new Error("the connection has ended");
      if (frame.type === type) return frame;
    }
  }

  /** Reads until a stream or the connection ends. */
  async end(stream = 1): Promise<StreamEnd> {
    const end: StreamEnd = { body: "" };
    while (true) {
      const frame = await this.frame();
      if (!frame) return { ...end, closed: true };
      const { type, flags, payload, fields } = frame;
      if (type === h2.GOAWAY) end.goAway = new DataView(payload.buffer, payload.byteOffset).getUint32(4);
      if (frame.stream !== stream) continue;
      if (type === h2.RST_STREAM) {
        return { ...end, reset: new DataView(payload.buffer, payload.byteOffset).getUint32(0) };
      }
      if (type === h2.DATA) end.body += new TextDecoder().decode(payload);
      if (fields && end.status === undefined) {
        const status = Number(fields[0][1]);
        if (status >= 200) Object.assign(end, { status, fields });
      } else if (fields) end.trailers = fields;
      if (flags & h2.END_STREAM) return end;
    }
  }

  [Symbol.dispose](): void {
    closeQuietly(this.conn);
  }

  async #take(count: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    while (this.#buffer.length < count) {
      const piece = new Uint8Array(64 * 1024);
      const read = await this.conn.read(piece).catch(() => null);
      if (read === null) return undefined;
      const joined = new Uint8Array(this.#buffer.length + read);
      joined.set(this.#buffer);
      joined.set(piece.subarray(0, read), this.#buffer.length);
      this.#buffer = joined;
    }
    const bytes = this.#buffer.subarray(0, count);
    this.#buffer = this.#buffer.subarray(count);
    return bytes;
  }
}

/** Fields of a request; further ones replace those of the same name, or follow. */
export function h2Fields(more: Record<string, string | undefined> = {}): Header[] {
  const fields: Record<string, string | undefined> = {
    ":method": "GET",
    ":scheme": "http",
    ":authority": H2_HOST,
    ":path": "/",
    ...more,
  };
  return Object.entries(fields).filter((field): field is Header => field[1] !== undefined);
}

/** A HEADERS frame of a whole request, or of its beginning. */
export function h2Request(
  stream = 1,
  fields: readonly Header[] = h2Fields(),
  flags = h2.END_HEADERS | h2.END_STREAM,
): Uint8Array {
  return h2.frame(h2.HEADERS, flags, stream, h2.encodeHeaders(fields));
}

/** A HEADERS frame of a request whose body follows. */
export const h2Post = (stream = 1, more: Record<string, string> = {}): Uint8Array =>
  h2Request(stream, h2Fields({ ":method": "POST", ...more }), h2.END_HEADERS);
