/** A server of HTTP/2 that writes hand-made frames, at the other end of a session. */
import { BufferedConnection, DeadlineWatch } from "../../lib/network/connection.ts";
import { TIMEOUTS } from "../../lib/network/limit.ts";
import { WholeBody } from "../../lib/network/message/body.ts";
import type { Header } from "../../lib/network/message/header.ts";
import * as h2 from "../../lib/network/http2/frame.ts";
import { HeaderDecoder } from "../../lib/network/http2/hpack.ts";
import { Http2Session } from "../../lib/network/upstream/http2/mod.ts";
import type { OutgoingRequest } from "../../lib/network/upstream/upstream.ts";

/** A received frame. */
export interface ReceivedH2Frame {
  type: number;
  flags: number;
  stream: number;
  payload: DataView;
}

/** One session with its server. */
export class RawServer {
  constructor(readonly session: Http2Session, readonly conn: Deno.Conn, readonly close: () => void) {}

  static async open(first = h2.settingsFrame([])): Promise<RawServer> {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    const [client, conn] = await Promise.all([
      Deno.connect({ hostname: "127.0.0.1", port }),
      listener.accept(),
    ]);
    listener.close();
    const connection = new BufferedConnection(client, new DeadlineWatch(), undefined);
    const session = new Http2Session(connection, TIMEOUTS, () => {});
    const server = new RawServer(session, conn, () => {
      session.close();
      connection.close();
      conn.close();
    });
    await server.read(h2.PREFACE.length);
    await server.send(first);
    return server;
  }

  request(request: Partial<OutgoingRequest> = {}) {
    return this.session.exchange({
      method: "GET",
      authority: "api.example.com",
      target: "/",
      headers: [],
      body: new WholeBody(new Uint8Array()),
      trailers: false,
      ...request,
    });
  }

  async send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.conn.write(bytes.subarray(at));
  }

  async read(length: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length;) {
      const got = await this.conn.read(bytes.subarray(at));
      if (got === null) throw new Error("the session closed the connection");
      at += got;
    }
    return bytes;
  }

  /** The next frame of a type; those before it are dropped. */
  async next(type: number): Promise<ReceivedH2Frame> {
    while (true) {
      const frame = await this.frame();
      if (frame.type === type) return frame;
    }
  }

  /** The next frame. */
  async frame(): Promise<ReceivedH2Frame> {
    const head = new DataView((await this.read(h2.FRAME_HEAD)).buffer);
    const payload = await this.read(head.getUint32(0) >>> 8);
    return {
      type: head.getUint8(3),
      flags: head.getUint8(4),
      stream: head.getUint32(5),
      payload: new DataView(payload.buffer),
    };
  }

  /** The fields of the next header block, and how many frames it came in. */
  async headers(): Promise<{ fields: Header[]; flags: number; frames: number }> {
    const first = await this.next(h2.HEADERS);
    const block = [...new Uint8Array(first.payload.buffer)];
    let frames = 1;
    for (let last = first; !(last.flags & h2.END_HEADERS); frames++) {
      last = await this.next(h2.CONTINUATION);
      block.push(...new Uint8Array(last.payload.buffer));
    }
    return { fields: new HeaderDecoder().decode(Uint8Array.from(block)), flags: first.flags, frames };
  }

  /**
   * Waits until the session has handled every frame so far.
   * @returns types of the frames that it sent before
   */
  async settled(): Promise<number[]> {
    await this.send(h2.frame(h2.PING, 0, 0, new Uint8Array(8)));
    const types: number[] = [];
    for (let frame = await this.frame(); frame.type !== h2.PING; frame = await this.frame()) {
      types.push(frame.type);
    }
    return types;
  }
}
