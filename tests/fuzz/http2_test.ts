/**
 * Frames of HTTP/2 of a guest, valid and damaged, in any order and any pieces: each connection ends
 * or goes on, no request goes out that was not decided on, and what goes out is one request of
 * HTTP/1.1 for each that was allowed.
 */
import { assert, assertEquals } from "@std/assert";
import * as h2 from "../../lib/network/http2/mod.ts";
import { GrpcBody, GrpcReader } from "../../lib/network/exchange/grpc.ts";
import { WholeBody } from "../../lib/network/message/body.ts";
import type { Header } from "../../lib/network/message/header.ts";
import { h2Fields, h2Request, RawHttp2 } from "../helper/http2_client.ts";
import { TestNet } from "../helper/net.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 250;
const TYPES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 77];
const VALUES = [
  "a",
  "",
  "1",
  " x",
  "b\r\nc: d",
  "\0",
  "y".repeat(3000),
  "chunked",
  "trailers",
  "api.example.com",
  "☃",
];
const NAMES = [
  ":method",
  ":path",
  ":scheme",
  ":authority",
  ":status",
  "host",
  "te",
  "cookie",
  "content-length",
  "x-a",
];

/** Fields that are mostly those of a request. */
function fieldsOf(random: Random): Header[] {
  const fields = h2Fields({ ":method": random.pick(["GET", "POST", "HEAD", "OPTIONS", "get"]) });
  for (let count = random.below(4); count > 1; count--) {
    const field: Header = [random.pick(NAMES), random.pick(VALUES)];
    fields.splice(random.below(fields.length + 1), random.below(2), field);
  }
  return fields;
}

/** A frame that is mostly valid. @param at its place among the frames of its connection */
function frameOf(random: Random, at: number): Uint8Array {
  const stream = random.below(6) === 0 ? random.below(20) : 1 + 2 * at;
  const ends = random.below(2);
  switch (random.below(8)) {
    case 0:
      return h2.frame(random.pick(TYPES), random.below(64), stream, random.bytes(random.below(30)));
    case 1:
    case 2:
    case 3:
      return h2Request(stream, fieldsOf(random), h2.END_HEADERS | ends);
    case 4:
      return h2.frame(h2.DATA, ends, stream, random.bytes(random.below(100)));
    case 5:
      return h2.numberFrame(random.pick([h2.RST_STREAM, h2.WINDOW_UPDATE]), stream, random.below(2 ** 31));
    case 6:
      return h2.settingsFrame([[random.below(8), random.next()]]);
    default: {
      const frame = h2Request(stream, fieldsOf(random));
      // Its length stays true: a frame without an end is a client that waits.
      frame[3 + random.below(frame.length - 3)] ^= 1 << random.below(8);
      return frame;
    }
  }
}

Deno.test("frames: no error of the host, and no request that was not decided on", async () => {
  const random = new Random(9113);
  const seen: string[] = [];
  await using upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    seen.push(request.method);
    await request.arrayBuffer().catch(() => {});
    return new Response("ok");
  });
  await using net = await TestNet.open({
    target: () => ({ hostname: "127.0.0.1", port: upstream.addr.port }),
  });
  for (let round = 0; round < ROUNDS; round++) {
    using client = await RawHttp2.open(net);
    const bytes = Array.from({ length: 1 + random.below(12) }, (_, at) => frameOf(random, at)).flatMap((
      frame,
    ) => [...frame]);
    for (let at = 0; at < bytes.length;) {
      const piece = Uint8Array.from(bytes.slice(at, at += 1 + random.below(400)));
      await client.send(piece).catch(() => at = bytes.length);
    }
    // Answers it, or has ended.
    await client.send(h2.frame(h2.PING, 0, 0, new Uint8Array(8))).catch(() => {});
    for (let frame = await client.frame(); frame; frame = await client.frame()) {
      if (frame.type === h2.PING && frame.flags & h2.ACK) break;
    }
  }
  await net.idle();
  const allowed = net.gate.entries.filter(({ decision }) => decision?.decision === "allow");
  assert(seen.length > ROUNDS / 10, `${seen.length}`);
  assert(seen.length <= allowed.length, `${seen.length} of ${allowed.length}`);
});

Deno.test("header blocks: what was encoded is decoded, and damaged ones end in one kind of error", () => {
  const random = new Random(7541);
  for (let round = 0; round < 5000; round++) {
    const fields = fieldsOf(random).map(([name, value]): Header => [name, value.replace(/[^\0-\xff]/g, "?")]);
    const block = h2.encodeHeaders(fields);
    assertEquals(new h2.HeaderDecoder().decode(block), fields);
    const damaged = block.slice();
    for (let count = 1 + random.below(4); count > 0; count--) {
      damaged[random.below(block.length)] = random.below(256);
    }
    try {
      new h2.HeaderDecoder().decode(damaged);
    } catch (error) {
      assertEquals((error as Error).name, "MessageFault");
    }
  }
});

Deno.test("messages of gRPC: any bytes pass unchanged, in whatever pieces they come", async () => {
  const random = new Random(1337);
  for (let round = 0; round < 2000; round++) {
    const bytes = random.bytes(random.below(200));
    const whole = new GrpcReader();
    const ends = whole.read(bytes);
    const pieces = new GrpcReader();
    for (let at = 0; at < bytes.length;) pieces.read(bytes.subarray(at, at += 1 + random.below(40)));
    assertEquals([pieces.messages, pieces.bytes], [whole.messages, whole.bytes]);
    assertEquals(ends.every((end, at) => end > (ends[at - 1] ?? 0) && end <= bytes.length), true);
    const body = new GrpcBody(new WholeBody(bytes), new GrpcReader());
    assertEquals(await body.read(), bytes.length === 0 ? null : bytes);
  }
});
