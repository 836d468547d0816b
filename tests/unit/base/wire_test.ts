import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  encodeFrame,
  FRAME_LIMIT,
  FrameError,
  FrameReader,
  readExactly,
} from "../../../lib/base/wire/mod.ts";

/** Source that returns at most `step` of `bytes` per read. */
function source(bytes: Uint8Array, step = bytes.length || 1) {
  let at = 0;
  return {
    reads: 0,
    read(into: Uint8Array): Promise<number | null> {
      this.reads++;
      if (at >= bytes.length) return Promise.resolve(null);
      const part = bytes.subarray(at, at + Math.min(step, into.length));
      into.set(part);
      at += part.length;
      return Promise.resolve(part.length);
    },
  };
}

function join(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

Deno.test("a frame is a big-endian length and UTF-8 JSON", () => {
  const frame = encodeFrame({ t: "é" });
  assertEquals([...frame.subarray(0, 4)], [0, 0, 0, 10]);
  assertEquals(new TextDecoder().decode(frame.subarray(4)), '{"t":"é"}');
});

Deno.test("frames are reassembled from chunks of any size", async () => {
  const messages = [{ a: 1 }, "x".repeat(100_000), [], { text: "ü→😀" }];
  const bytes = join(...messages.map((message) => encodeFrame(message)));
  for (const step of [1, 3, 4096, bytes.length]) {
    assertEquals(await Array.fromAsync(new FrameReader(source(bytes, step))), messages);
  }
});

Deno.test("bytes of a count are read in parts, and nothing behind them", async () => {
  const bytes = Uint8Array.of(1, 2, 3, 4, 5);
  for (const step of [1, 2, 5]) {
    const from = source(bytes, step);
    assertEquals(await readExactly(from, 0), new Uint8Array());
    assertEquals(await readExactly(from, 3), bytes.subarray(0, 3));
    assertEquals(await readExactly(from, 2), bytes.subarray(3));
    assertEquals(await readExactly(from, 1), undefined);
  }
  assertEquals(await readExactly(source(bytes, 2), 6), undefined);
});

Deno.test("a length over the limit is rejected before its body is read or allocated", async () => {
  const header = new Uint8Array([0x80, 0, 0, 0]); // 2 GiB
  const from = source(header);
  const error = await assertRejects(() => new FrameReader(from).next(), FrameError);
  assertEquals(error.message, `frame of 2147483648 bytes exceeds the limit of ${FRAME_LIMIT}`);
  assertEquals(from.reads, 1);
});

Deno.test("a close within a frame and invalid UTF-8 JSON are errors", async () => {
  const whole = encodeFrame({ a: 1 });
  await assertRejects(() => new FrameReader(source(whole.subarray(0, 2))).next(), FrameError);
  await assertRejects(() => new FrameReader(source(whole.subarray(0, 8))).next(), FrameError);
  await assertRejects(
    () => new FrameReader(source(new Uint8Array([0, 0, 0, 2, 0xff, 0xfe]))).next(),
    FrameError,
  );
  await assertRejects(() => new FrameReader(source(new Uint8Array([0, 0, 0, 1, 0x7b]))).next(), FrameError);
});

Deno.test("rest() returns the bytes after the last frame, for a wire that switches to raw bytes", async () => {
  const reader = new FrameReader(source(join(encodeFrame({ t: "Attach" }), new Uint8Array([1, 2, 3]))));
  assertEquals(await reader.next(), { t: "Attach" });
  assertEquals([...reader.rest()], [1, 2, 3]);
});

Deno.test("a message over the limit is not sent", () => {
  assertThrows(() => encodeFrame("x".repeat(FRAME_LIMIT)), FrameError);
});
