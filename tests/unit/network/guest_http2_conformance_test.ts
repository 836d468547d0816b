/**
 * HTTP/2 of guests against the cases of h2spec 2.6 (generic, http2 and hpack): a fault ends its stream or the
 * connection with the code of RFC 9113, and everything else is answered.
 */
import { assert, assertEquals } from "@std/assert";
import * as h2 from "../../../lib/network/http2/mod.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { h2Fields, h2Post, h2Request, RawHttp2 } from "../../helper/http2_client.ts";
import { TestNet } from "../../helper/net.ts";

const { PROTOCOL_ERROR, FRAME_SIZE_ERROR, FLOW_CONTROL_ERROR, COMPRESSION_ERROR, STREAM_CLOSED } = h2;
const bytes = (length: number, fill = 0) => new Uint8Array(length).fill(fill);
const data = (stream: number, body = "test", flags = h2.END_STREAM) =>
  h2.frame(h2.DATA, flags, stream, new TextEncoder().encode(body));
const reset = (stream: number, code = h2.CANCEL) => h2.numberFrame(h2.RST_STREAM, stream, code);
const widen = (stream: number, count: number) => h2.numberFrame(h2.WINDOW_UPDATE, stream, count);
const priority = (stream: number, on: number) => h2.frame(h2.PRIORITY, 0, stream, depends(on));
const block = h2.encodeHeaders(h2Fields());
const headers = (stream: number, flags: number, payload = block) =>
  h2.frame(h2.HEADERS, flags, stream, payload);
const more = (stream: number, flags = h2.END_HEADERS, payload: Uint8Array = bytes(0)) =>
  h2.frame(h2.CONTINUATION, flags, stream, payload);
const fields = (changed: Record<string, string | undefined>, ...rest: Header[]) =>
  h2Request(1, [...h2Fields(changed), ...rest]);
const BOTH = h2.END_HEADERS | h2.END_STREAM;

/** Priority of a stream: what it depends on, and a weight. */
function depends(on: number): Uint8Array {
  const payload = bytes(5, 255);
  new DataView(payload.buffer).setUint32(0, on);
  return payload;
}

function join(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

/** A response with a status, a reset of stream 1, or a GOAWAY with a code. */
type Expected = { status: number } | { reset: number } | { goAway: number };

const CASES: [name: string, frames: Uint8Array[], expected: Expected][] = [
  // Generic: every frame that a server must take.
  ["a GET", [h2Request()], { status: 200 }],
  ["a HEAD", [fields({ ":method": "HEAD" })], { status: 200 }],
  ["a POST", [h2Post(), data(1)], { status: 200 }],
  ["a POST with trailers", [
    h2Post(),
    data(1, "test", 0),
    h2Request(1, [["x-test", "ok"]]),
  ], { status: 200 }],
  ["PRIORITY of an idle stream", [priority(1, 0), h2Request()], { status: 200 }],
  ["PRIORITY of half a stream", [h2Post(), priority(1, 0), data(1)], { status: 200 }],
  ["PRIORITY of a later stream", [priority(9, 0), h2Request()], { status: 200 }],
  ["HEADERS with priority", [
    headers(1, BOTH | h2.WITH_PRIORITY, join(depends(0), block)),
  ], { status: 200 }],
  ["HEADERS with padding", [headers(1, BOTH | h2.PADDED, join(bytes(1, 3), block, bytes(3)))], {
    status: 200,
  }],
  ["DATA with padding", [
    h2Post(),
    h2.frame(h2.DATA, h2.PADDED | h2.END_STREAM, 1, join(bytes(1, 6), bytes(4, 65), bytes(6))),
  ], { status: 200 }],
  ["several DATA frames", [h2Post(), data(1, "a", 0), data(1, "b", 0), data(1, "c")], { status: 200 }],
  ["CONTINUATION", [
    headers(1, h2.END_STREAM, block.subarray(0, 3)),
    more(1, h2.END_HEADERS, block.subarray(3)),
  ], {
    status: 200,
  }],
  ["several CONTINUATION frames", [
    headers(1, h2.END_STREAM, block.subarray(0, 3)),
    more(1, 0, block.subarray(3, 7)),
    more(1, h2.END_HEADERS, block.subarray(7)),
  ], { status: 200 }],
  ["SETTINGS", [h2.settingsFrame([[1, 4096], [h2.MAX_CONCURRENT_STREAMS, 7]]), h2Request()], { status: 200 }],
  ["PING", [h2.frame(h2.PING, 0, 0, bytes(8)), h2Request()], { status: 200 }],
  ["PING with ACK", [h2.frame(h2.PING, h2.ACK, 0, bytes(8, 1)), h2Request()], { status: 200 }],
  ["WINDOW_UPDATE of the connection", [widen(0, 1), h2Request()], { status: 200 }],
  ["WINDOW_UPDATE of a stream", [h2Post(), widen(1, 1), data(1)], { status: 200 }],
  ["WINDOW_UPDATE of a closed stream", [h2Post(3), reset(3), widen(3, 1), h2Request(5)], { status: 200 }],
  // §4 Frames.
  ["an unknown type", [h2.frame(0x16, 0, 0, bytes(8)), h2Request()], { status: 200 }],
  ["undefined flags", [h2.frame(h2.PING, 0x16, 0, bytes(8)), h2Request()], { status: 200 }],
  ["a reserved bit", [
    (() => {
      const frame = h2Request();
      frame[5] |= 0x80;
      return frame;
    })(),
  ], { status: 200 }],
  ["DATA of 16,384 bytes", [h2Post(), data(1, "x".repeat(16_384))], { status: 200 }],
  ["DATA beyond the frame size", [h2Post(), data(1, "x".repeat(16_385))], { goAway: FRAME_SIZE_ERROR }],
  ["HEADERS beyond the frame size", [headers(1, BOTH, bytes(16_385))], { goAway: FRAME_SIZE_ERROR }],
  ["an invalid header block", [headers(1, BOTH, bytes(1, 0x40))], { goAway: COMPRESSION_ERROR }],
  ["PRIORITY within a block", [headers(1, h2.END_STREAM), priority(1, 0), more(1)], {
    goAway: PROTOCOL_ERROR,
  }],
  ["HEADERS of another stream within a block", [headers(1, h2.END_STREAM), headers(3, BOTH)], {
    goAway: PROTOCOL_ERROR,
  }],
  // §5 Streams.
  ["DATA of an idle stream", [data(1)], { goAway: PROTOCOL_ERROR }],
  ["RST_STREAM of an idle stream", [reset(1)], { goAway: PROTOCOL_ERROR }],
  ["WINDOW_UPDATE of an idle stream", [widen(1, 100)], { goAway: PROTOCOL_ERROR }],
  ["CONTINUATION of an idle stream", [more(1)], { goAway: PROTOCOL_ERROR }],
  ["DATA of a half-closed stream", [h2Post(), data(1), data(1)], { goAway: STREAM_CLOSED }],
  ["HEADERS of a half-closed stream", [h2Request(), h2Request()], { goAway: STREAM_CLOSED }],
  ["CONTINUATION of a half-closed stream", [h2Request(), more(1)], { goAway: PROTOCOL_ERROR }],
  ["DATA of a stream that it reset", [h2Post(), reset(1), data(1)], { goAway: STREAM_CLOSED }],
  ["HEADERS of a stream that it reset", [h2Post(), reset(1), h2Request()], { goAway: STREAM_CLOSED }],
  ["CONTINUATION of a stream that it reset", [h2Post(), reset(1), more(1)], { goAway: PROTOCOL_ERROR }],
  ["an even stream", [h2Request(2)], { goAway: PROTOCOL_ERROR }],
  ["a stream below the last", [h2Request(5), h2Request(3)], { goAway: STREAM_CLOSED }],
  ["HEADERS that depend on their stream", [headers(1, BOTH | h2.WITH_PRIORITY, join(depends(1), block))], {
    goAway: PROTOCOL_ERROR,
  }],
  ["PRIORITY that depends on its stream", [priority(1, 1)], { goAway: PROTOCOL_ERROR }],
  ["a frame of an extension", [h2Post(), h2.frame(0xbe, 0, 1, bytes(3)), data(1)], { status: 200 }],
  ["a frame of an extension within a block", [
    headers(1, h2.END_STREAM),
    h2.frame(0xbe, 0, 0, bytes(8)),
    more(1),
  ], {
    goAway: PROTOCOL_ERROR,
  }],
  // §6 Frame definitions.
  ["DATA without a stream", [data(0)], { goAway: PROTOCOL_ERROR }],
  ["DATA with too much padding", [h2Post(), h2.frame(h2.DATA, h2.PADDED, 1, join(bytes(1, 6), bytes(4)))], {
    goAway: PROTOCOL_ERROR,
  }],
  ["HEADERS without a stream", [headers(0, BOTH)], { goAway: PROTOCOL_ERROR }],
  ["HEADERS with too much padding", [headers(1, BOTH | h2.PADDED, join(bytes(1, 255), block))], {
    goAway: PROTOCOL_ERROR,
  }],
  ["PRIORITY without a stream", [priority(0, 1)], { goAway: PROTOCOL_ERROR }],
  ["PRIORITY of 4 bytes", [h2.frame(h2.PRIORITY, 0, 1, bytes(4))], { goAway: FRAME_SIZE_ERROR }],
  ["RST_STREAM without a stream", [reset(0)], { goAway: PROTOCOL_ERROR }],
  ["RST_STREAM of 3 bytes", [h2Post(), h2.frame(h2.RST_STREAM, 0, 1, bytes(3))], {
    goAway: FRAME_SIZE_ERROR,
  }],
  ["SETTINGS with ACK and a payload", [h2.frame(h2.SETTINGS, h2.ACK, 0, bytes(6))], {
    goAway: FRAME_SIZE_ERROR,
  }],
  ["SETTINGS of a stream", [h2.frame(h2.SETTINGS, 0, 1, bytes(6))], { goAway: PROTOCOL_ERROR }],
  ["SETTINGS of 3 bytes", [h2.frame(h2.SETTINGS, 0, 0, bytes(3))], { goAway: FRAME_SIZE_ERROR }],
  ["SETTINGS: push of 2", [h2.settingsFrame([[h2.ENABLE_PUSH, 2]])], { goAway: PROTOCOL_ERROR }],
  ["SETTINGS: a window beyond the maximum", [h2.settingsFrame([[h2.INITIAL_WINDOW_SIZE, 2 ** 31]])], {
    goAway: FLOW_CONTROL_ERROR,
  }],
  ["SETTINGS: frames below the minimum", [h2.settingsFrame([[h2.MAX_FRAME_SIZE, 16_383]])], {
    goAway: PROTOCOL_ERROR,
  }],
  ["SETTINGS: frames beyond the maximum", [h2.settingsFrame([[h2.MAX_FRAME_SIZE, 2 ** 24]])], {
    goAway: PROTOCOL_ERROR,
  }],
  ["SETTINGS: an unknown one", [h2.settingsFrame([[0xff, 1]]), h2Request()], { status: 200 }],
  ["PING of a stream", [h2.frame(h2.PING, 0, 1, bytes(8))], { goAway: PROTOCOL_ERROR }],
  ["PING of 6 bytes", [h2.frame(h2.PING, 0, 0, bytes(6))], { goAway: FRAME_SIZE_ERROR }],
  ["GOAWAY of a stream", [h2.frame(h2.GOAWAY, 0, 1, bytes(8))], { goAway: PROTOCOL_ERROR }],
  ["PUSH_PROMISE", [h2.frame(h2.PUSH_PROMISE, h2.END_HEADERS, 1, bytes(4))], { goAway: PROTOCOL_ERROR }],
  ["WINDOW_UPDATE of 0", [widen(0, 0)], { goAway: PROTOCOL_ERROR }],
  ["WINDOW_UPDATE of 0 for a stream", [h2Post(), widen(1, 0)], { reset: PROTOCOL_ERROR }],
  ["WINDOW_UPDATE of 3 bytes", [h2.frame(h2.WINDOW_UPDATE, 0, 0, bytes(3))], { goAway: FRAME_SIZE_ERROR }],
  ["a window of the connection beyond the maximum", [widen(0, h2.WINDOW_MAX), widen(0, h2.WINDOW_MAX)], {
    goAway: FLOW_CONTROL_ERROR,
  }],
  ["a window of a stream beyond the maximum", [h2Post(), widen(1, h2.WINDOW_MAX), widen(1, h2.WINDOW_MAX)], {
    goAway: FLOW_CONTROL_ERROR,
  }],
  ["an initial window that makes one too large", [
    h2Post(),
    widen(1, h2.WINDOW_MAX - h2.WINDOW),
    h2.settingsFrame([[h2.INITIAL_WINDOW_SIZE, h2.WINDOW + 1]]),
  ], { goAway: FLOW_CONTROL_ERROR }],
  ["CONTINUATION without a stream", [headers(1, h2.END_STREAM), more(0)], { goAway: PROTOCOL_ERROR }],
  ["CONTINUATION of another stream", [headers(1, h2.END_STREAM), more(3)], { goAway: PROTOCOL_ERROR }],
  ["CONTINUATION behind END_HEADERS", [headers(1, BOTH), more(1)], { goAway: PROTOCOL_ERROR }],
  ["CONTINUATION behind its end", [headers(1, h2.END_STREAM), more(1), more(1)], { goAway: PROTOCOL_ERROR }],
  ["CONTINUATION behind DATA", [h2Post(), data(1, "a", 0), more(1)], { goAway: PROTOCOL_ERROR }],
  // §8 Messages. Each answer is 400, and the stream is reset.
  ["a field in upper case", [fields({ "X-Test": "a" })], { reset: PROTOCOL_ERROR }],
  ["a field with a space", [fields({ "x test": "a" })], { reset: PROTOCOL_ERROR }],
  ["an unknown pseudo-header field", [fields({ ":test": "ok" })], { reset: PROTOCOL_ERROR }],
  ["a pseudo-header field of responses", [fields({ ":status": "200" })], { reset: PROTOCOL_ERROR }],
  ["a pseudo-header field behind others", [
    h2Request(1, [...h2Fields({ ":path": undefined }), ["x-a", "b"], [":path", "/"]]),
  ], { reset: PROTOCOL_ERROR }],
  ["a pseudo-header field in trailers", [h2Post(), data(1, "a", 0), h2Request(1, [[":method", "GET"]])], {
    reset: PROTOCOL_ERROR,
  }],
  ["connection", [fields({ connection: "keep-alive" })], { reset: PROTOCOL_ERROR }],
  ["keep-alive", [fields({ "keep-alive": "5" })], { reset: PROTOCOL_ERROR }],
  ["proxy-connection", [fields({ "proxy-connection": "close" })], { reset: PROTOCOL_ERROR }],
  ["transfer-encoding", [fields({ "transfer-encoding": "chunked" })], { reset: PROTOCOL_ERROR }],
  ["upgrade", [fields({ upgrade: "h2c" })], { reset: PROTOCOL_ERROR }],
  ["te of more than trailers", [fields({ te: "trailers, deflate" })], { reset: PROTOCOL_ERROR }],
  ["te: trailers", [fields({ te: "trailers" })], { status: 200 }],
  ["an empty :path", [fields({ ":path": "" })], { reset: PROTOCOL_ERROR }],
  ["no :method", [fields({ ":method": undefined })], { reset: PROTOCOL_ERROR }],
  ["no :scheme", [fields({ ":scheme": undefined })], { reset: PROTOCOL_ERROR }],
  ["no :path", [fields({ ":path": undefined })], { reset: PROTOCOL_ERROR }],
  ["no :authority", [fields({ ":authority": undefined })], { reset: PROTOCOL_ERROR }],
  ["host in place of :authority", [fields({ ":authority": undefined, host: "api.example.com" })], {
    status: 200,
  }],
  ["two :method", [fields({}, [":method", "GET"])], { reset: PROTOCOL_ERROR }],
  ["two :path", [h2Request(1, [[":path", "/"], ...h2Fields()])], { reset: PROTOCOL_ERROR }],
  ["two :scheme", [h2Request(1, [[":scheme", "http"], ...h2Fields()])], { reset: PROTOCOL_ERROR }],
  ["a content-length that is too long", [h2Post(1, { "content-length": "9" }), data(1)], {
    reset: PROTOCOL_ERROR,
  }],
  ["a content-length that is too short", [h2Post(1, { "content-length": "1" }), data(1)], {
    reset: PROTOCOL_ERROR,
  }],
  ["a content-length of several frames", [
    h2Post(1, { "content-length": "1" }),
    data(1, "te", 0),
    data(1, "st"),
  ], { reset: PROTOCOL_ERROR }],
  ["a content-length without a body", [fields({ "content-length": "1" })], { reset: PROTOCOL_ERROR }],
  ["HEADERS behind the body that do not end it", [
    h2Post(),
    data(1, "a", 0),
    h2Request(1, [["x", "y"]], h2.END_HEADERS),
  ], { reset: PROTOCOL_ERROR }],
  // HPACK.
  ["an index beyond the table", [headers(1, BOTH, join(block, bytes(1, 0xc6)))], {
    goAway: COMPRESSION_ERROR,
  }],
  ["index 0", [headers(1, BOTH, join(block, bytes(1, 0x80)))], { goAway: COMPRESSION_ERROR }],
  ["a table size behind a field", [headers(1, BOTH, join(block, bytes(1, 0x20)))], {
    goAway: COMPRESSION_ERROR,
  }],
  ["a table size beyond the maximum", [headers(1, BOTH, join(new Uint8Array([0x3f, 0xe2, 0x1f]), block))], {
    goAway: COMPRESSION_ERROR,
  }],
  ["Huffman padding of more than 7 bits", [
    headers(
      1,
      BOTH,
      join(block, new Uint8Array([0, 0x85, 0xf2, 0xb2, 0x4a, 0x84, 0xff, 0x84, 0x49, 0x50, 0x9f, 0xff])),
    ),
  ], { goAway: COMPRESSION_ERROR }],
  ["Huffman padding of zeros", [
    headers(1, BOTH, join(block, new Uint8Array([0, 0x83, 0xf2, 0xb2, 0x4a, 0x83, 0x49, 0x50, 0x90]))),
  ], { goAway: COMPRESSION_ERROR }],
];

Deno.test("every frame and message is answered as RFC 9113 and RFC 7541 require", async (t) => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  await using upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    await request.arrayBuffer();
    return new Response("ok");
  });
  target = { hostname: "127.0.0.1", port: upstream.addr.port };
  for (const [name, frames, expected] of CASES) {
    await t.step(name, async () => {
      using client = await RawHttp2.open(net);
      // The guest may be refused before it has sent everything.
      await client.send(...frames).catch(() => {});
      const stream = new DataView(frames.at(-1)!.buffer).getUint32(5) & h2.WINDOW_MAX || 1;
      const end = await client.end("status" in expected ? stream : 1);
      if ("status" in expected) assertEquals(end, { ...end, status: expected.status });
      else if ("goAway" in expected) assertEquals([end.goAway, end.closed], [expected.goAway, true]);
      else if (end.reset === undefined) {
        // The 400 comes with the end of the stream, and the reset behind it.
        assertEquals(end.status, 400);
        const last = await client.next(h2.RST_STREAM);
        assertEquals([last.stream, last.payload.at(-1)], [1, expected.reset]);
      } else assertEquals(end.reset, expected.reset);
    });
  }
});

Deno.test("faults are recorded as refusals, and the other streams of the connection are served", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  await using upstream = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("ok"),
  );
  target = { hostname: "127.0.0.1", port: upstream.addr.port };
  using client = await RawHttp2.open(net);
  await client.send(h2Request(1, h2Fields({ connection: "close" })), h2Request(3));
  const [bad, good] = [await client.end(1), await client.end(3)];
  assertEquals([bad.status, good.status, good.body], [400, 200, "ok"]);
  assertEquals(JSON.parse(bad.body).rule.id, "guard-malformed-http");
  const [refused, served] = net.gate.entries;
  assertEquals(refused.decision?.rule.id, "guard-malformed-http");
  assertEquals(served.event.http?.request.url, "http://api.example.com/");
});

Deno.test("a client without the preface, and one that is slow with it, are closed", async () => {
  await using net = await TestNet.open();
  using wrong = new RawHttp2(await net.connect(80));
  await wrong.send(h2.PREFACE.subarray(0, 20), new TextEncoder().encode("XX\r\n"));
  // As HTTP/1.1 it is a version that does not exist.
  const buffer = new Uint8Array(100);
  const count = await wrong.conn.read(buffer);
  assert(new TextDecoder().decode(buffer.subarray(0, count!)).startsWith("HTTP/1.1 400"));
  using silent = new RawHttp2(await net.connect(80));
  await silent.send(h2.PREFACE, h2.frame(h2.PING, 0, 0, bytes(8)));
  assertEquals((await silent.end()).goAway, PROTOCOL_ERROR);
});

Deno.test("more data than a stream's window has room for ends the connection", async () => {
  // Takes the request, and reads nothing of it.
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await using net = await TestNet.open({
    target: () => ({ hostname: "127.0.0.1", port: listener.addr.port }),
  });
  using client = await RawHttp2.open(net);
  const piece = h2.frame(h2.DATA, 0, 1, bytes(16_384));
  // As much as its decision reads.
  await client.send(h2Post(), ...Array(5).fill(piece));
  const conn = await listener.accept();
  for (let isOpen = true; isOpen;) await client.send(piece).catch(() => isOpen = false);
  assertEquals((await client.end()).goAway, FLOW_CONTROL_ERROR);
  conn.close();
  listener.close();
});
