/** One stream of HTTP/2: the frames of its request, its windows, and when it may be sent again. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ConnectionLost, MessageFault } from "../../../lib/network/fault.ts";
import { HEAD_MAX, INTERIM_MAX, STREAM_WINDOW } from "../../../lib/network/limit.ts";
import { WholeBody } from "../../../lib/network/message/body.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { Http2Body } from "../../../lib/network/http2/body.ts";
import * as h2 from "../../../lib/network/http2/frame.ts";
import { encodeHeaders } from "../../../lib/network/http2/hpack.ts";
import { RawServer } from "../../helper/http2_server.ts";

const { END_HEADERS, END_STREAM } = h2;
const bytes = (length: number, value = 120) => new Uint8Array(length).fill(value);
const head = (stream: number, status: string, flags = END_HEADERS, ...more: Header[]) =>
  h2.frame(h2.HEADERS, flags, stream, encodeHeaders([[":status", status], ...more]));
const reset = (stream: number, code: number) => h2.numberFrame(h2.RST_STREAM, stream, code);
const PSEUDO: Header[] = [
  [":method", "GET"],
  [":scheme", "https"],
  [":authority", "api.example.com"],
  [":path", "/"],
];

/** Tests one session with its server. */
function test(
  name: string,
  run: (server: RawServer) => Promise<void>,
  settings: Parameters<typeof h2.settingsFrame>[0] = [],
): void {
  Deno.test(`HTTP/2: ${name}`, async () => {
    const server = await RawServer.open(h2.settingsFrame(settings));
    try {
      await run(server);
    } finally {
      server.close();
    }
  });
}

test("the fields of a request, with the length of its body, and its end where it has none", async (server) => {
  server.request();
  assertEquals(await server.headers(), { fields: PSEUDO, flags: END_HEADERS | END_STREAM, frames: 1 });
  server.request({ headers: [["x", "1"]], trailers: true, body: new WholeBody(bytes(3)) });
  assertEquals(await server.headers(), {
    fields: [...PSEUDO, ["x", "1"], ["te", "trailers"], ["content-length", "3"]],
    flags: END_HEADERS,
    frames: 1,
  });
  const data = await server.frame();
  assertEquals([data.type, data.flags, data.stream, data.payload.byteLength], [h2.DATA, 0, 3, 3]);
  const last = await server.frame();
  assertEquals([last.type, last.flags, last.payload.byteLength], [h2.DATA, END_STREAM, 0]);
});

test("the trailers of a request end its stream; those that may not be sent are left out", async (server) => {
  server.request({ body: new WholeBody(bytes(1), [["x-sum", "1"], ["content-length", "9"]]) });
  await server.next(h2.DATA);
  assertEquals(await server.headers(), {
    fields: [["x-sum", "1"]],
    flags: END_HEADERS | END_STREAM,
    frames: 1,
  });
});

test("a body that ends while its head is on its way ends its stream", async (server) => {
  const body = new Http2Body(undefined, () => {}, () => {});
  server.request({ body });
  body.end([]);
  assertEquals((await server.headers()).flags, END_HEADERS);
  const { type, flags, payload } = await server.frame();
  assertEquals([type, flags, payload.byteLength], [h2.DATA, END_STREAM, 0]);
});

test("a long head goes out in frames that the server takes, one behind the other", async (server) => {
  for (const [length, frames] of [[16_000, 1], [40_000, 3]]) {
    // Of characters whose Huffman codes have eight bits or more.
    server.request({ headers: [["x-long", "Z~".repeat(length / 2)]] });
    const received = await server.headers();
    assertEquals([received.frames >= frames, received.fields.at(-1)![1].length], [true, length]);
    assertEquals(received.flags & END_STREAM, END_STREAM);
  }
});

test("a body waits for the windows of its stream and of the connection", async (server) => {
  await server.settled();
  server.request({ body: new WholeBody(bytes(70_000)) });
  const size = async () => (await server.next(h2.DATA)).payload.byteLength;
  assertEquals(await size(), 10);
  assert(!(await server.settled()).includes(h2.DATA));
  await server.send(h2.numberFrame(h2.WINDOW_UPDATE, 1, 5));
  assertEquals(await size(), 5);
  await server.send(h2.settingsFrame([[h2.INITIAL_WINDOW_SIZE, 16]]));
  assertEquals(await size(), 6);
  await server.send(h2.numberFrame(h2.WINDOW_UPDATE, 1, 1_000_000));
  let sent = 21;
  while (sent < h2.WINDOW) {
    const count = await size();
    assert(count <= h2.FRAME_MAX);
    sent += count;
  }
  assertEquals(sent, h2.WINDOW);
  assert(!(await server.settled()).includes(h2.DATA));
  await server.send(h2.numberFrame(h2.WINDOW_UPDATE, 0, 70_000));
  assertEquals([await size(), await size()], [70_000 - h2.WINDOW, 0]);
}, [[h2.INITIAL_WINDOW_SIZE, 10]]);

test("the window of a stream is given back as its body is read, half of it at a time", async (server) => {
  const { response } = server.request();
  await server.send(head(1, "200"));
  const { body } = await response;
  await server.settled();
  const piece = h2.frame(h2.DATA, 0, 1, bytes(16_384));
  for (let sent = 0; sent < STREAM_WINDOW / 2 - 16_384; sent += 16_384) await server.send(piece);
  await server.settled();
  for (let read = 0; read < STREAM_WINDOW / 2 - 16_384;) read += (await body.read())!.length;
  assertEquals(await server.settled(), []);
  await server.send(piece);
  await body.read();
  const { stream, payload } = await server.next(h2.WINDOW_UPDATE);
  assertEquals([stream, payload.getUint32(0)], [1, STREAM_WINDOW / 2]);
});

test("padding takes part of the window, which is given back without being read", async (server) => {
  server.request();
  await server.send(head(1, "200"));
  await server.settled();
  const padded = h2.frame(h2.DATA, h2.PADDED, 1, Uint8Array.from([255, ...bytes(255, 0)]));
  for (let sent = 0; sent < STREAM_WINDOW / 2; sent += 256) await server.send(padded);
  const { stream, payload } = await server.next(h2.WINDOW_UPDATE);
  assertEquals([stream, payload.getUint32(0)], [1, STREAM_WINDOW / 2]);
});

test("the session states its limits, and gives the window of the connection back at its half", async (server) => {
  const { payload } = await server.next(h2.SETTINGS);
  const settings = Array.from(
    { length: payload.byteLength / 6 },
    (_, at) => [payload.getUint16(at * 6), payload.getUint32(at * 6 + 2)],
  );
  assertEquals(settings, [
    // ENABLE_PUSH, INITIAL_WINDOW_SIZE and MAX_HEADER_LIST_SIZE (RFC 9113 §6.5.2).
    [2, 0],
    [4, STREAM_WINDOW],
    [6, HEAD_MAX],
  ]);
  const first = await server.next(h2.WINDOW_UPDATE);
  assertEquals([first.stream, first.payload.getUint32(0)], [0, 16 * 1024 * 1024 - h2.WINDOW]);
  server.request().abort();
  await server.settled();
  // Data of a stream that has ended counts too.
  const piece = h2.frame(h2.DATA, 0, 1, bytes(h2.FRAME_MAX));
  const half = 8 * 1024 * 1024;
  for (let sent = h2.FRAME_MAX; sent < half; sent += h2.FRAME_MAX) await server.send(piece);
  assertEquals(await server.settled(), []);
  await server.send(piece);
  const again = await server.next(h2.WINDOW_UPDATE);
  assertEquals([again.stream, again.payload.getUint32(0)], [0, half]);
});

test("interim responses are dropped, as many as there may be", async (server) => {
  for (const [stream, count] of [[1, INTERIM_MAX], [3, INTERIM_MAX + 1]]) {
    const { response } = server.request();
    for (let at = 0; at < count; at++) await server.send(head(stream, "103"));
    await server.send(head(stream, "200"));
    if (count === INTERIM_MAX) assertEquals((await response).status, 200);
    else await assertRejects(() => response, MessageFault, "too many interim");
  }
  const { response } = server.request();
  await server.send(head(5, "103", END_HEADERS | END_STREAM));
  await assertRejects(() => response, MessageFault, "interim");
});

const STATUSES: [fields: Header[], valid: boolean][] = [
  [[[":status", "200"]], true],
  [[[":status", "999"]], true],
  [[[":status", "099"]], false],
  [[[":status", "101"]], false],
  [[[":status", "2000"]], false],
  [[[":status", "20"]], false],
  [[["x", "y"]], false],
  [[[":status", "200"], ["content-length", "0"]], true],
  [[[":status", "200"], ["content-length", "-1"]], false],
  [[[":status", "200"], ["content-length", "1000000000000000"]], false],
];
test("the head of a response has one status, and a length that is a number", async (server) => {
  for (const [at, [fields, valid]] of STATUSES.entries()) {
    const { response } = server.request();
    const flags = END_HEADERS | END_STREAM;
    await server.send(h2.frame(h2.HEADERS, flags, at * 2 + 1, encodeHeaders(fields)));
    const got = await response.then(() => true, (error) => !(error instanceof MessageFault));
    assertEquals(got, valid, JSON.stringify(fields));
  }
});

test("responses that have no body keep the length that they declare", async (server) => {
  const cases: [method: string, status: string][] = [["HEAD", "200"], ["GET", "204"], ["GET", "304"]];
  for (const [at, [method, status]] of cases.entries()) {
    const { response } = server.request({ method });
    await server.send(head(at * 2 + 1, status, END_HEADERS | END_STREAM, ["content-length", "5"]));
    const { declared, body } = await response;
    assertEquals([declared, body.length, body.done], ["5", 0, true]);
  }
  const { response } = server.request();
  await server.send(head(7, "200", END_HEADERS, ["content-length", "5"]));
  const { declared, body } = await response;
  assertEquals([declared, body.length, body.done], ["5", 5, false]);
});

test("a stream has responded with its first frame, unless that says that it was not processed", async (server) => {
  const cases: [frame: (stream: number) => Uint8Array, responded: boolean, refused: boolean][] = [
    [(stream) => head(stream, "103"), true, false],
    [(stream) => reset(stream, h2.CANCEL), true, false],
    [(stream) => reset(stream, h2.NO_ERROR), true, false],
    [(stream) => reset(stream, h2.REFUSED_STREAM), false, true],
  ];
  for (const [at, [frame, responded, refused]] of cases.entries()) {
    const exchange = server.request();
    assertEquals([exchange.hasResponded, exchange.refused], [false, false]);
    await server.send(frame(at * 2 + 1));
    await server.settled();
    assertEquals([exchange.hasResponded, exchange.refused], [responded, refused]);
  }
});

test("GOAWAY refuses the streams above its last one, and the others go on", async (server) => {
  const [first, second] = [server.request(), server.request()];
  const last = bytes(8, 0);
  new DataView(last.buffer).setUint32(0, 1);
  await server.send(h2.frame(h2.GOAWAY, 0, 0, last));
  await assertRejects(() => second.response, ConnectionLost, "refused the stream");
  assertEquals([first.refused, second.refused], [false, true]);
  await server.send(head(1, "200", END_HEADERS | END_STREAM));
  assertEquals((await first.response).status, 200);
});

test("a stream that is given up is reset, and one that is complete is not", async (server) => {
  const first = server.request();
  await server.settled();
  first.abort();
  first.abort();
  const { stream, payload } = await server.next(h2.RST_STREAM);
  assertEquals([stream, payload.getUint32(0)], [1, h2.CANCEL]);
  await assertRejects(() => first.response, ConnectionLost, "was closed");
  const second = server.request();
  await server.send(head(3, "200", END_HEADERS | END_STREAM));
  await second.response;
  second.done();
  second.abort();
  assertEquals(await server.settled(), [h2.HEADERS]);
});

test("a server that responds early may do without the rest of the request", async (server) => {
  const { response } = server.request({ body: new WholeBody(bytes(70_000)) });
  await server.next(h2.HEADERS);
  await server.send(head(1, "413", END_HEADERS | END_STREAM));
  await server.send(reset(1, h2.NO_ERROR));
  const { status, body } = await response;
  assertEquals([status, await body.read()], [413, null]);
});

test("acknowledgements that the server does not read have a limit", async (server) => {
  const ping = h2.frame(h2.PING, 0, 0, bytes(8));
  const pings = Uint8Array.from(Array.from({ length: 1000 }, () => [...ping]).flat());
  const { response } = server.request();
  const failed = assertRejects(() => response, MessageFault, "unread responses to control frames");
  const isOver = failed.then(() => true);
  const pause = () => new Promise<false>((resolve) => setTimeout(() => resolve(false)));
  while (!await Promise.race([isOver, pause()])) {
    if (await server.send(pings).then(() => false, () => true)) break;
  }
  await failed;
});
