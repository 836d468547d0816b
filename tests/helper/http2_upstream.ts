/** An upstream of HTTP/2 over TLS, whose responses a test makes frame by frame. */
import { closeQuietly } from "../../lib/base/wire/mod.ts";
import type { Header } from "../../lib/network/message/header.ts";
import * as h2 from "../../lib/network/http2/frame.ts";
import { encodeHeaders } from "../../lib/network/http2/hpack.ts";
import type { RawUpstream, rawUpstream } from "./net_client.ts";

/** An upstream whose HTTP/2 responses a test makes: `answer` is called for each new stream. */
export function h2Upstream(
  leaf: Parameters<typeof rawUpstream>[1] & object,
  answer: (stream: number, send: (...frames: Uint8Array[]) => Promise<void>, count: number) => Promise<void>,
): RawUpstream {
  const listener = Deno.listenTls({
    hostname: "127.0.0.1",
    port: 0,
    ...leaf,
    alpnProtocols: ["h2"],
  });
  const conns: Deno.Conn[] = [];
  let count = 0;
  const serve = async (conn: Deno.Conn) => {
    const send = async (...frames: Uint8Array[]) => {
      for (const frame of frames) {
        for (let at = 0; at < frame.length;) at += await conn.write(frame.subarray(at));
      }
    };
    const read = async (length: number) => {
      const bytes = new Uint8Array(length);
      for (let at = 0; at < length;) {
        const got = await conn.read(bytes.subarray(at));
        if (got === null) throw new Error("closed");
        at += got;
      }
      return bytes;
    };
    await read(h2.PREFACE.length);
    await send(h2.settingsFrame([]));
    while (true) {
      const head = await read(9);
      await read(head[0] << 16 | head[1] << 8 | head[2]);
      if (head[3] === h2.HEADERS) await answer(new DataView(head.buffer).getUint32(5), send, ++count);
    }
  };
  (async () => {
    for await (const conn of listener) {
      conns.push(conn);
      serve(conn).catch(() => {}).finally(() => closeQuietly(conn));
    }
  })().catch(() => {});
  const { port } = listener.addr as Deno.NetAddr;
  return {
    target: { hostname: "127.0.0.1", port },
    conns,
    close() {
      listener.close();
      conns.forEach(closeQuietly);
    },
  };
}

/** Head of a response. */
export const h2Ok = (stream: number, ...more: Header[]) =>
  h2.frame(h2.HEADERS, h2.END_HEADERS, stream, encodeHeaders([[":status", "200"], ...more]));

/** Text of a response, and its end. */
export const h2Data = (stream: number, body: string, flags = h2.END_STREAM) =>
  h2.frame(h2.DATA, flags, stream, new TextEncoder().encode(body));
