/** Frames of one side of a WebSocket: read strictly, and written one at a time. */
import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { BufferedConnection, DeadlineWatch } from "../../../lib/network/connection.ts";
import { ConnectionLost } from "../../../lib/network/fault.ts";
import { FRAME_WHOLE_MAX } from "../../../lib/network/limit.ts";
import { FrameReader, FrameWriter, type Side } from "../../../lib/network/websocket/frame.ts";
import { SocketFault } from "../../../lib/network/websocket/fault.ts";
import { FakeStream } from "../../helper/fake_stream.ts";
import { frameBytes, guestFrame, type WireFrame } from "../../helper/websocket.ts";

const decode = (bytes: Uint8Array) => new TextDecoder("latin1").decode(bytes);
const encode = (text: string) => new TextEncoder().encode(text);

/** Reads every frame of a side that sends these bytes, and then closes or not. */
async function readAll(wire: Uint8Array[], side: Side, isClosed = true): Promise<[unknown[], number]> {
  const stream = new FakeStream();
  const connection = new BufferedConnection(stream, new DeadlineWatch());
  const reader = new FrameReader(connection, side);
  const frames: unknown[] = [];
  try {
    for (const bytes of wire) stream.feed(bytes);
    if (isClosed) stream.feed(null);
    for (let next = await reader.next(); next; next = await reader.next()) {
      frames.push(
        next.kind === "data"
          ? [next.isText ? "text" : "binary", decode(next.bytes), next.isLast]
          : [next.kind, decode(next.payload)],
      );
    }
    return [frames, reader.bytes];
  } finally {
    connection.close();
  }
}

/** Messages in frames, with control frames between them. */
const WIRE: WireFrame[] = [
  { payload: "one" },
  { payload: "tw", fin: false },
  { opcode: 9, payload: "ping" },
  { opcode: 0, payload: "o" },
  { opcode: 2, payload: "\x00", fin: false },
  { opcode: 0, payload: "", fin: false },
  { opcode: 10, payload: "" },
  { opcode: 0, payload: "z" },
  { payload: "" },
  { opcode: 8, payload: new Uint8Array([3, 232]) },
];
const READ = [
  ["text", "one", true],
  ["text", "tw", false],
  ["ping", "ping"],
  ["text", "o", true],
  ["binary", "\x00", false],
  ["binary", "", false],
  ["pong", ""],
  ["binary", "z", true],
  ["text", "", true],
  ["close", "\x03\xe8"],
];

Deno.test("frames are read in order however they are cut, and their bytes are counted", async () => {
  for (const [side, format] of [["guest", guestFrame], ["upstream", frameBytes]] as const) {
    const bytes = Uint8Array.from(WIRE.flatMap((frame) => [...format(frame)]));
    for (let cut = 0; cut <= bytes.length; cut++) {
      const [frames, count] = await readAll([bytes.subarray(0, cut), bytes.subarray(cut)], side);
      assertEquals(frames, READ, `${side} cut at ${cut}`);
      assertEquals(count, bytes.length);
    }
  }
});

Deno.test("a frame of the limit is read whole, and a longer one in pieces", async () => {
  for (const length of [FRAME_WHOLE_MAX, FRAME_WHOLE_MAX + 1]) {
    const [frames] = await readAll([guestFrame({ opcode: 2, payload: "x".repeat(length) })], "guest");
    assertEquals(frames.length === 1, length === FRAME_WHOLE_MAX);
    const pieces = frames as [string, string, boolean][];
    assertEquals(pieces.map(([, text]) => text).join(""), "x".repeat(length));
    assertEquals(pieces.map(([, , isLast]) => isLast), pieces.map((_, at) => at === pieces.length - 1));
  }
});

Deno.test("frames that two programs could read differently are refused", async () => {
  const cases: [frames: WireFrame[], reason: string, code: number][] = [
    [[{ rsv: 4 }], "reserved bits", 1002],
    [[{ rsv: 1 }], "reserved bits", 1002],
    [[{ opcode: 3 }], "unknown opcode", 1002],
    [[{ opcode: 7 }], "unknown opcode", 1002],
    [[{ opcode: 11 }], "unknown opcode", 1002],
    [[{ opcode: 9, fin: false }], "fragmented control frame", 1002],
    [[{ opcode: 9, payload: "x".repeat(126) }], "control frame over 125", 1002],
    [[{ payload: "x", lengthBits: 16 }], "shortest form", 1002],
    [[{ payload: "x".repeat(125), lengthBits: 16 }], "shortest form", 1002],
    [[{ payload: "x".repeat(65_535), lengthBits: 64 }], "shortest form", 1002],
    [[{ opcode: 0 }], "continuation without a message", 1002],
    [[{ payload: "a" }, { opcode: 0 }], "continuation without a message", 1002],
    [[{ fin: false }, { payload: "b" }], "new message within another", 1002],
    [[{ fin: false, opcode: 2 }, { payload: "b" }], "new message within another", 1002],
    [[{ payload: new Uint8Array([0xff]) }], "not UTF-8", 1007],
    [[{ payload: new Uint8Array([0xc3]) }], "not UTF-8", 1007],
    [[{ payload: new Uint8Array([0xc3]), fin: false }, { opcode: 0, payload: "x" }], "not UTF-8", 1007],
  ];
  for (const [frames, reason, code] of cases) {
    const error = await assertRejects(() => readAll(frames.map(guestFrame), "guest"), SocketFault, reason);
    assertEquals(error.code, code);
  }
  await assertRejects(() => readAll([frameBytes({})], "guest"), SocketFault, "unmasked frame");
  await assertRejects(() => readAll([guestFrame({})], "upstream"), SocketFault, "masked frame of a server");
  const half = [{ payload: new Uint8Array([0xc3]), fin: false }, {
    opcode: 0,
    payload: new Uint8Array([0xbc]),
  }];
  assertEquals((await readAll(half.map(guestFrame), "guest"))[0].length, 2);
  const binary = guestFrame({ opcode: 2, payload: new Uint8Array([0xff]) });
  assertEquals((await readAll([binary], "guest"))[0].length, 1);
  const longest = guestFrame({ opcode: 9, payload: "x".repeat(125) });
  assertEquals((await readAll([longest], "guest"))[0].length, 1);
});

Deno.test("a connection that ends within a frame is lost, and one that ends between frames has ended", async () => {
  const frame = guestFrame({ payload: "hello" });
  assertEquals((await readAll([], "guest"))[0], []);
  for (let cut = 1; cut < frame.length; cut++) {
    await assertRejects(() => readAll([frame.subarray(0, cut)], "guest"), ConnectionLost, "within a frame");
  }
});

/** Writes to a side. @returns what arrived there, and the stream */
async function written(to: Side, write: (writer: FrameWriter) => Promise<unknown>) {
  const stream = new FakeStream();
  const connection = new BufferedConnection(stream, new DeadlineWatch());
  const writer = new FrameWriter(connection, to);
  await write(writer);
  connection.close();
  // Those to an upstream are a guest's.
  const [frames] = await readAll(stream.written, to === "upstream" ? "guest" : "upstream");
  return { frames, stream };
}

Deno.test("frames are written as those of one message, masked for an upstream only", async () => {
  for (const to of ["guest", "upstream"] as const) {
    const { frames, stream } = await written(to, async (writer) => {
      await writer.writeData(true, encode("a"), false);
      await writer.writeData(true, encode(""), false);
      await writer.writeControl("ping", encode("p"));
      await writer.writeData(true, encode("b"), true);
      await writer.writeData(false, encode("c"), false);
      await writer.writeData(false, encode(""), true);
      await writer.writeText("d");
      await writer.writeControl("pong", encode(""));
      await writer.writeControl("close", encode(""));
      writer.end();
      await new Promise((resolve) => setTimeout(resolve));
    });
    assertEquals(frames, [
      ["text", "a", false],
      ["ping", "p"],
      ["text", "b", true],
      ["binary", "c", false],
      ["binary", "", true],
      ["text", "d", true],
      ["pong", ""],
      ["close", ""],
    ]);
    assertEquals([stream.written.length, stream.ends], [8, 1]);
  }
});

Deno.test("a message of sbx waits for the end of one that is being written", async () => {
  const { frames } = await written("guest", async (writer) => {
    await writer.writeData(true, encode("a"), false);
    await writer.writeText("first");
    await writer.writeText("second");
    await writer.writeData(true, encode("b"), true);
    await writer.writeData(true, encode("c"), true);
  });
  assertEquals(frames.map((frame) => (frame as string[])[1]), ["a", "b", "first", "second", "c"]);
});

Deno.test("each frame to an upstream has a mask of its own, also once many were written", async () => {
  const { frames, stream } = await written("upstream", async (writer) => {
    for (let at = 0; at < 200; at++) await writer.writeControl("ping", encode(`${at}`));
  });
  assertEquals(frames, Array.from({ length: 200 }, (_, at) => ["ping", `${at}`]));
  const masks = stream.written.map((bytes) => bytes.subarray(2, 6).join());
  assertEquals(new Set(masks).size, 200);
  const other = await written("upstream", (writer) => writer.writeControl("ping", encode("")));
  assertNotEquals(other.stream.written[0].subarray(2, 6).join(), masks[0]);
});
