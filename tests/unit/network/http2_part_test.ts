/** Parts of an HTTP/2 session by themselves: windows, bodies and header blocks. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { MessageFault } from "../../../lib/network/fault.ts";
import { HEAD_MAX } from "../../../lib/network/limit.ts";
import { Http2Body, SendWindow } from "../../../lib/network/http2/body.ts";
import { contentOf, HeaderBlock } from "../../../lib/network/http2/frame.ts";
import * as h2 from "../../../lib/network/http2/frame.ts";

const text = (value: string) => new TextEncoder().encode(value);
const decode = (bytes: Uint8Array | null) => bytes && new TextDecoder().decode(bytes);

/** True when a promise has settled by now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol();
  await new Promise((resolve) => setTimeout(resolve));
  return await Promise.race([promise, Promise.resolve(open)]) !== open;
}

Deno.test("a window: who waits for it waits until a byte may be sent, or it is closed", async () => {
  const window = new SendWindow(10);
  assertEquals(await isSettled(window.more()), true);
  window.take(12);
  const waiting = window.more();
  assertEquals([window.remaining, await isSettled(waiting)], [-2, false]);
  window.add(2);
  assertEquals([window.remaining, await isSettled(waiting)], [0, false]);
  window.add(1);
  assertEquals([window.remaining, await isSettled(waiting)], [1, true]);
  window.take(1);
  const later = window.more();
  assertEquals([await isSettled(later), window.closed], [false, false]);
  window.close();
  assertEquals([await isSettled(later), await isSettled(window.more()), window.closed], [true, true, true]);
});

Deno.test("a window: its maximum is allowed, a byte more is not", () => {
  const window = new SendWindow(1);
  window.add(h2.WINDOW_MAX - 1);
  assertEquals(window.remaining, h2.WINDOW_MAX);
  assertThrows(() => window.add(1), MessageFault, "beyond the maximum");
});

/** A body, with what it told its stream. */
function bodyOf(length?: number) {
  const told = { waits: 0, read: [] as number[] };
  const body = new Http2Body(length, () => void told.waits++, (count) => told.read.push(count));
  return { body, told };
}

Deno.test("a body: pieces that wait are read as one, and their bytes are told once they are read", async () => {
  const { body, told } = bodyOf();
  assertEquals([body.length, body.done, body.ready, body.isWhole], [undefined, false, false, false]);
  body.push(text("ab"));
  body.push(text("cde"));
  assertEquals([body.ready, told.read], [true, []]);
  assertEquals([decode(await body.read()), told.read, told.waits, body.ready], ["abcde", [5], 0, false]);
  const next = body.read();
  assertEquals([await isSettled(next), told.waits], [false, 1]);
  body.push(text("f"));
  assertEquals(decode(await next), "f");
  const last = body.read();
  body.end([["x", "1"]]);
  assertEquals([await last, body.done, body.trailers, told.read], [null, true, [["x", "1"]], [5, 1]]);
});

Deno.test("a body: bytes before its end or its error can be read", async () => {
  const ended = bodyOf().body;
  ended.push(text("a"));
  ended.end([]);
  assertEquals([ended.done, decode(await ended.read()), ended.done], [false, "a", true]);
  ended.fail(new Error("late"));
  assertEquals(await ended.read(), null);

  const failed = bodyOf().body;
  failed.push(text("a"));
  failed.fail(new Error("first"));
  failed.fail(new Error("second"));
  assertEquals([decode(await failed.read()), failed.done], ["a", false]);
  await assertRejects(() => failed.read(), Error, "first");

  const waiting = bodyOf().body;
  const reading = assertRejects(() => waiting.read(), Error, "broken");
  waiting.fail(new Error("broken"));
  await reading;
});

Deno.test("a body: as many bytes as its head declared", () => {
  const { body } = bodyOf(3);
  body.push(text("ab"));
  assertEquals([body.length, body.isWhole], [3, false]);
  assertThrows(() => body.end([]), MessageFault, "shorter than its content-length");
  body.push(text("c"));
  assertEquals(body.isWhole, true);
  body.end([]);
  assertThrows(() => body.push(text("d")), MessageFault, "longer than its content-length");
  bodyOf(0).body.end([]);
});

Deno.test("a header block: its pieces are joined up to a limit, which counts the heads of frames", () => {
  const frame = (flags: number) => ({ type: h2.HEADERS, flags, stream: 7, payload: new Uint8Array() });
  const block = new HeaderBlock(frame(h2.END_STREAM));
  const piece = text("ab");
  block.add(piece);
  // The buffer of the connection is used again.
  piece.fill(0);
  block.add(text(""));
  block.add(text("c"));
  assertEquals([decode(block.joined()), block.stream, block.endsStream], ["abc", 7, true]);
  assertEquals(new HeaderBlock(frame(h2.END_HEADERS)).endsStream, false);

  const whole = new HeaderBlock(frame(0));
  whole.add(new Uint8Array(HEAD_MAX));
  assertThrows(() => whole.add(text("")), MessageFault, "too long");
  const pieces = new HeaderBlock(frame(0));
  pieces.add(text("a"));
  pieces.add(new Uint8Array(HEAD_MAX - h2.FRAME_HEAD - 1));
  assertEquals(pieces.joined().length, HEAD_MAX - h2.FRAME_HEAD);
  assertThrows(() => new HeaderBlock(frame(0)).add(new Uint8Array(HEAD_MAX + 1)), MessageFault, "too long");
});

Deno.test("the content of a frame: without padding and priority", () => {
  const content = (type: number, flags: number, payload: string) =>
    decode(contentOf({ type, flags, stream: 1, payload: text(payload) }));
  const { DATA, HEADERS, PADDED, WITH_PRIORITY } = h2;
  const cases: [type: number, flags: number, payload: string, content: string][] = [
    [DATA, 0, "\x02abc", "\x02abc"],
    [DATA, PADDED, "\x02abc", "a"],
    [DATA, PADDED, "\x00abc", "abc"],
    [DATA, PADDED, "\x03abc", ""],
    [DATA, WITH_PRIORITY, "abcdefg", "abcdefg"],
    [HEADERS, 0, "abcdefg", "abcdefg"],
    [HEADERS, WITH_PRIORITY, "abcdefg", "fg"],
    [HEADERS, WITH_PRIORITY, "abcde", ""],
    [HEADERS, WITH_PRIORITY | PADDED, "\x01abcdefg", "f"],
  ];
  for (const [type, flags, payload, want] of cases) assertEquals(content(type, flags, payload), want);
  assertThrows(() => content(DATA, PADDED, "\x04abc"), MessageFault, "more padding");
});
