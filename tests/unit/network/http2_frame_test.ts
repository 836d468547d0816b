/**
 * Frames that HTTP/2 forbids (RFC 9113 §6): each ends the connection with its
 * error code, or its stream alone.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { MessageFault } from "../../../lib/network/fault.ts";
import { STREAM_WINDOW } from "../../../lib/network/limit.ts";
import * as h2 from "../../../lib/network/http2/frame.ts";
import { encodeHeaders } from "../../../lib/network/http2/hpack.ts";
import { RawServer } from "../../helper/http2_server.ts";

const bytes = (length: number) => new Uint8Array(length);
const block = encodeHeaders([[":status", "200"]]);
const head = (stream: number, flags = h2.END_HEADERS) => h2.frame(h2.HEADERS, flags, stream, block);
/** Payload of a padded frame whose padding is as long as the whole payload. */
const overpadded = new Uint8Array([4, 0, 0, 0]);

/** Frames after the request on stream 1, and the code that has to answer them. */
const CASES: [name: string, frame: Uint8Array, code: number, reason: string][] = [
  ["DATA without a stream", h2.frame(h2.DATA, 0, 0, bytes(1)), h2.PROTOCOL_ERROR, "DATA frame without"],
  ["DATA of an idle stream", h2.frame(h2.DATA, 0, 5, bytes(1)), h2.PROTOCOL_ERROR, "without a request"],
  ["DATA with too much padding", h2.frame(h2.DATA, h2.PADDED, 1, overpadded), h2.PROTOCOL_ERROR, "padding"],
  ["padded DATA without a byte", h2.frame(h2.DATA, h2.PADDED, 1, bytes(0)), h2.FRAME_SIZE_ERROR, "padding"],
  ["HEADERS without a stream", head(0), h2.PROTOCOL_ERROR, "HEADERS frame without"],
  ["HEADERS of an idle stream", head(3), h2.PROTOCOL_ERROR, "without a request"],
  ["HEADERS of a stream of the server", head(2), h2.PROTOCOL_ERROR, "without a request"],
  [
    "HEADERS too short for their priority",
    h2.frame(h2.HEADERS, h2.END_HEADERS | h2.WITH_PRIORITY, 1, bytes(4)),
    h2.FRAME_SIZE_ERROR,
    "wrong length",
  ],
  [
    "HEADERS that cannot be decompressed",
    h2.frame(h2.HEADERS, h2.END_HEADERS, 1, new Uint8Array([0xff, 0xff, 0xff])),
    h2.COMPRESSION_ERROR,
    "header block",
  ],
  ["PRIORITY without a stream", h2.frame(h2.PRIORITY, 0, 0, bytes(5)), h2.PROTOCOL_ERROR, "PRIORITY frame"],
  ["PRIORITY of 4 bytes", h2.frame(h2.PRIORITY, 0, 1, bytes(4)), h2.FRAME_SIZE_ERROR, "wrong length"],
  ["RST_STREAM without a stream", h2.numberFrame(h2.RST_STREAM, 0, 8), h2.PROTOCOL_ERROR, "RST_STREAM frame"],
  [
    "RST_STREAM of an idle stream",
    h2.numberFrame(h2.RST_STREAM, 7, 8),
    h2.PROTOCOL_ERROR,
    "without a request",
  ],
  ["RST_STREAM of 3 bytes", h2.frame(h2.RST_STREAM, 0, 1, bytes(3)), h2.FRAME_SIZE_ERROR, "wrong length"],
  [
    "SETTINGS of a stream",
    h2.frame(h2.SETTINGS, 0, 1, bytes(6)),
    h2.PROTOCOL_ERROR,
    "SETTINGS frame of a stream",
  ],
  ["SETTINGS of 5 bytes", h2.frame(h2.SETTINGS, 0, 0, bytes(5)), h2.FRAME_SIZE_ERROR, "wrong length"],
  [
    "an acknowledgement with settings",
    h2.frame(h2.SETTINGS, h2.ACK, 0, bytes(6)),
    h2.FRAME_SIZE_ERROR,
    "wrong length",
  ],
  ["push switched on", h2.settingsFrame([[h2.ENABLE_PUSH, 1]]), h2.PROTOCOL_ERROR, "out of range"],
  ["a frame size of 1", h2.settingsFrame([[h2.MAX_FRAME_SIZE, 1]]), h2.PROTOCOL_ERROR, "out of range"],
  [
    "a window over 2^31-1",
    h2.settingsFrame([[h2.INITIAL_WINDOW_SIZE, 2 ** 31]]),
    h2.FLOW_CONTROL_ERROR,
    "out of range",
  ],
  [
    "PUSH_PROMISE",
    h2.frame(h2.PUSH_PROMISE, h2.END_HEADERS, 1, bytes(4)),
    h2.PROTOCOL_ERROR,
    "server push",
  ],
  ["PING of a stream", h2.frame(h2.PING, 0, 1, bytes(8)), h2.PROTOCOL_ERROR, "PING frame of a stream"],
  ["PING of 7 bytes", h2.frame(h2.PING, 0, 0, bytes(7)), h2.FRAME_SIZE_ERROR, "wrong length"],
  ["GOAWAY of a stream", h2.frame(h2.GOAWAY, 0, 1, bytes(8)), h2.PROTOCOL_ERROR, "GOAWAY frame of a stream"],
  ["GOAWAY of 7 bytes", h2.frame(h2.GOAWAY, 0, 0, bytes(7)), h2.FRAME_SIZE_ERROR, "wrong length"],
  ["WINDOW_UPDATE of 0", h2.numberFrame(h2.WINDOW_UPDATE, 0, 0), h2.PROTOCOL_ERROR, "window update of 0"],
  [
    "WINDOW_UPDATE of an idle stream",
    h2.numberFrame(h2.WINDOW_UPDATE, 9, 1),
    h2.PROTOCOL_ERROR,
    "without a request",
  ],
  [
    "WINDOW_UPDATE of 5 bytes",
    h2.frame(h2.WINDOW_UPDATE, 0, 1, bytes(5)),
    h2.FRAME_SIZE_ERROR,
    "wrong length",
  ],
  [
    "WINDOW_UPDATE beyond the maximum",
    h2.numberFrame(h2.WINDOW_UPDATE, 0, h2.WINDOW_MAX),
    h2.FLOW_CONTROL_ERROR,
    "beyond the maximum",
  ],
  [
    "CONTINUATION without a stream",
    h2.frame(h2.CONTINUATION, h2.END_HEADERS, 0, block),
    h2.PROTOCOL_ERROR,
    "CONTINUATION frame without a stream",
  ],
  [
    "CONTINUATION without HEADERS",
    h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, block),
    h2.PROTOCOL_ERROR,
    "without a header block",
  ],
  [
    "a frame of 16,385 bytes",
    h2.frame(h2.DATA, 0, 1, bytes(h2.FRAME_MAX + 1)),
    h2.FRAME_SIZE_ERROR,
    "longer",
  ],
];

for (const [name, frame, code, reason] of CASES) {
  Deno.test(`HTTP/2: ${name} ends the connection with code ${code}`, async () => {
    const server = await RawServer.open();
    try {
      const { response } = server.request();
      await server.next(h2.HEADERS);
      await server.send(frame);
      assertEquals((await server.next(h2.GOAWAY)).payload.getUint32(4), code);
      const error = await assertRejects(() => response, MessageFault);
      assertStringIncludes(error.message, reason);
      assertEquals(server.session.hasRoom, false);
    } finally {
      server.close();
    }
  });
}

Deno.test("HTTP/2: an upstream whose first frame is no SETTINGS is refused", async () => {
  for (const first of [h2.frame(h2.PING, 0, 0, bytes(8)), h2.frame(h2.SETTINGS, h2.ACK, 0, bytes(0))]) {
    const server = await RawServer.open(first);
    try {
      assertEquals((await server.next(h2.GOAWAY)).payload.getUint32(4), h2.PROTOCOL_ERROR);
    } finally {
      server.close();
    }
  }
});

Deno.test("HTTP/2: a window update of 0 for a stream ends that stream only", async () => {
  const server = await RawServer.open();
  try {
    const [first, second] = [server.request(), server.request()];
    await server.next(h2.HEADERS);
    await server.send(h2.numberFrame(h2.WINDOW_UPDATE, 1, 0));
    await assertRejects(() => first.response, MessageFault, "window update of 0");
    assertEquals((await server.next(h2.RST_STREAM)).stream, 1);
    await server.send(head(3, h2.END_HEADERS | h2.END_STREAM));
    assertEquals((await second.response).status, 200);
  } finally {
    server.close();
  }
});

Deno.test("HTTP/2: frames of ended streams, of unknown types and priorities of idle streams are ignored", async () => {
  const server = await RawServer.open();
  try {
    const first = server.request();
    await server.send(head(1, h2.END_HEADERS | h2.END_STREAM));
    assertEquals((await first.response).status, 200);
    const second = server.request();
    await server.send(h2.frame(h2.DATA, 0, 1, bytes(3)));
    await server.send(h2.numberFrame(h2.WINDOW_UPDATE, 1, 0));
    await server.send(h2.frame(99, 0xff, 0, bytes(3)));
    await server.send(h2.frame(h2.PRIORITY, 0, 11, bytes(5)));
    await server.send(head(3, h2.END_HEADERS | h2.END_STREAM));
    assertEquals((await second.response).status, 200);
  } finally {
    server.close();
  }
});

Deno.test("HTTP/2: a session that the upstream leaves, or that has all its streams, takes no other", async () => {
  const server = await RawServer.open(h2.settingsFrame([[h2.MAX_CONCURRENT_STREAMS, 1]]));
  try {
    const first = server.request();
    await server.next(h2.HEADERS);
    await server.send(head(1, h2.END_HEADERS));
    const { body } = await first.response;
    assertEquals(server.session.hasRoom, false);
    await server.send(h2.frame(h2.DATA, h2.END_STREAM, 1, bytes(3)));
    while (await body.read() !== null);
    assertEquals(server.session.hasRoom, true);
    const second = server.request();
    const last = new Uint8Array(8);
    new DataView(last.buffer).setUint32(0, 3);
    await server.send(h2.frame(h2.GOAWAY, 0, 0, last));
    await server.send(head(3, h2.END_HEADERS | h2.END_STREAM));
    assertEquals((await second.response).status, 200);
    assertEquals(server.session.hasRoom, false);
  } finally {
    server.close();
  }
});

Deno.test("HTTP/2: a body that goes beyond the window of its stream is refused", async () => {
  const server = await RawServer.open();
  try {
    const { response } = server.request();
    await server.send(head(1));
    const { body } = await response;
    const frame = h2.frame(h2.DATA, 0, 1, bytes(16_000));
    for (let sent = 0; sent <= STREAM_WINDOW; sent += 16_000) await server.send(frame);
    await server.next(h2.RST_STREAM);
    await assertRejects(
      async () => {
        while (await body.read() !== null);
      },
      MessageFault,
      "more data than the window",
    );
  } finally {
    server.close();
  }
});
