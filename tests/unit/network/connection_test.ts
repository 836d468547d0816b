/** Connections over a stream that a test feeds: what is read and written, and who hears of the end. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { closeQuietly } from "../../../lib/base/wire/mod.ts";
import { BufferedConnection, DeadlineWatch } from "../../../lib/network/connection.ts";
import { copy } from "../../../lib/network/guest/terminator.ts";
import { ConnectionLost } from "../../../lib/network/fault.ts";
import { relay } from "../../../lib/network/relay.ts";
import { FakeStream } from "../../helper/fake_stream.ts";
import { eventually } from "../../helper/sbx.ts";

const text = (value: string) => new TextEncoder().encode(value);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

function open(first?: string): { stream: FakeStream; connection: BufferedConnection } {
  const stream = new FakeStream();
  const connection = new BufferedConnection(stream, new DeadlineWatch(5), first ? text(first) : undefined);
  return { stream, connection };
}

/** Waits until whatever can happen by itself has happened. */
const settle = () => new Promise((resolve) => setTimeout(resolve));

Deno.test("bytes are read in order behind those that are unread, and buffers grow with what comes", async () => {
  const { stream, connection } = open("first");
  assertEquals([connection.count, decode(connection.unread)], [5, "first"]);
  connection.skip(2);
  stream.feed(" second");
  assertEquals([await connection.fill(), decode(connection.unread)], [true, "rst second"]);
  connection.skip(connection.count);
  const long = new Uint8Array(400_000).map((_, at) => at % 251);
  stream.feed(long);
  stream.feed(null);
  let [at, unread] = [0, 0];
  while (await connection.fill()) {
    // Leaves bytes unread every other time.
    unread = connection.count;
    const taken = at % 2 === 0 ? unread : unread - 1;
    assertEquals(connection.unread[0], long[at]);
    assertEquals(connection.unread[unread - 1], long[at + unread - 1]);
    connection.skip(taken);
    at += taken;
  }
  assertEquals(at + connection.count, long.length);
  assertEquals([stream.rooms[0], Math.max(...stream.rooms)], [4096 - 5, 131_072]);
  connection.close();
});

Deno.test("a quiet connection gives its large buffers back", async () => {
  const { stream, connection } = open();
  stream.feed(new Uint8Array(300_000));
  for (let read = 0; read < 300_000;) {
    await connection.fill();
    connection.shrink();
    read += connection.count;
    connection.skip(connection.count);
  }
  connection.shrink();
  stream.feed("x");
  await connection.fill();
  assertEquals(stream.rooms.at(-1), 4096);
  connection.shrink();
  assertEquals(decode(connection.unread), "x");
  connection.close();

  const small = open();
  for (const piece of [new Uint8Array(4096), "x", "y"]) {
    small.stream.feed(piece);
    await small.connection.fill();
    small.connection.skip(small.connection.count);
    small.connection.shrink();
  }
  assertEquals(small.stream.rooms, [4096, 16_384, 16_384]);
  small.connection.close();
});

Deno.test("byte text and bytes go out joined, in one write unless they are long", async () => {
  const { stream, connection } = open();
  await connection.writeJoined("a\xe9", text("bc"), "d");
  await connection.writeJoined("only");
  assertEquals(stream.writes, ["a\ufffdbcd", "only"]);
  const long = "x".repeat(128 * 1024 + 1);
  for (const [before, after, writes] of [["a", "b", ["a", long, "b"]], ["", "", [long]]] as const) {
    stream.written.length = 0;
    await connection.writeJoined(before, text(long), after);
    assertEquals(stream.writes.map((each) => each.length), writes.map((each) => each.length));
    assertEquals(stream.writes.join(""), before + long + after);
  }
  stream.written.length = 0;
  stream.writeMax = 2;
  await connection.write(text("abcde"));
  assertEquals(stream.writes, ["ab", "cd", "e"]);
  connection.close();
});

Deno.test("who listens hears of the end; bytes that come are for the next fill", async () => {
  const { stream, connection } = open();
  let gone = 0;
  connection.listen(() => gone++);
  connection.listen(() => gone += 10);
  stream.feed("late");
  await settle();
  assertEquals([gone, stream.rooms.length], [0, 1]);
  assertEquals([await connection.fill(), decode(connection.unread)], [true, "late"]);
  connection.skip(4);
  connection.listen(() => gone++);
  stream.feed(null);
  await settle();
  assertEquals([gone, await connection.fill()], [1, false]);
  connection.close();

  for (const [end, calls] of [["listen", 1], ["unlisten", 0], ["fill", 0]] as const) {
    const { stream, connection } = open();
    let gone = 0;
    connection.listen(() => gone++);
    if (end === "unlisten") connection.unlisten();
    const filled = end === "fill" ? connection.fill().catch(() => {}) : undefined;
    stream.feed(new Error("reset"));
    await filled;
    await settle();
    assertEquals(gone, calls, end);
    connection.close();
  }
});

Deno.test("a parked connection is of no use once it ends, breaks or says something", async () => {
  for (const piece of ["x", null, new Error("reset")]) {
    const { stream, connection } = open();
    let gone = 0;
    connection.park(() => gone++);
    await settle();
    assertEquals(gone, 0);
    stream.feed(piece);
    await settle();
    assertEquals(gone, 1);
    connection.close();
  }
  const { stream, connection } = open();
  let gone = 0;
  connection.park(() => gone++);
  const filled = connection.fill();
  stream.feed("answer");
  assertEquals([await filled, gone, decode(connection.unread)], [true, 0, "answer"]);
  connection.close();
});

Deno.test("a prefetch may be abandoned: the next fill has its bytes, and waits for new ones after that", async () => {
  const { stream, connection } = open();
  const prefetch = connection.prefetch();
  assert(prefetch === connection.prefetch());
  stream.feed("one");
  await prefetch;
  assertEquals([await connection.fill(), decode(connection.unread)], [true, "one"]);
  const again = connection.prefetch();
  stream.feed("two");
  await again;
  connection.skip(6);
  const filled = connection.fill();
  stream.feed("three");
  assertEquals([await filled, decode(connection.unread)], [true, "three"]);
  connection.close();
});

Deno.test("the end of a connection has its reason, and is told once", async () => {
  const { stream, connection } = open();
  let closes = 0;
  connection.onClose(() => closes++);
  stream.feed(new Error("reset by peer"));
  const dropped = await assertRejects(() => connection.fill(), ConnectionLost);
  assertEquals([dropped.why, dropped.timedOut], ["dropped the connection", false]);
  connection.close();
  connection.close();
  assertEquals([closes, stream.closes, connection.closed], [1, 1, true]);
  const closed = await assertRejects(() => connection.write(text("x")), ConnectionLost);
  assertEquals([closed.why, closed.timedOut], ["was closed", false]);

  const late = open();
  late.connection.deadline.set(1);
  await eventually("the deadline passes", () => late.connection.closed);
  const idle = await assertRejects(() => late.connection.write(text("x")), ConnectionLost);
  assertEquals([idle.why, idle.timedOut, late.connection.timedOut], ["was idle for too long", true, true]);

  const told = open();
  let timeouts = 0;
  told.connection.onTimeout = () => timeouts++;
  told.connection.deadline.set(1);
  await eventually("the deadline passes", () => timeouts === 1);
  assertEquals([told.connection.closed, told.connection.timedOut], [false, false]);
  // The callback is for one deadline.
  told.connection.deadline.set(1);
  await eventually("the next deadline passes", () => told.connection.closed);
  assertEquals(timeouts, 1);
});

Deno.test("a detached connection leaves its stream open, and hands over its unread bytes", () => {
  const { stream, connection } = open("rest");
  let closes = 0;
  connection.onClose(() => closes++);
  connection.skip(1);
  assertEquals([decode(connection.detach()), connection.closed], ["est", true]);
  connection.close();
  assertEquals([stream.closes, closes], [0, 0]);
});

Deno.test("a relay counts what it moved each way, and closes both sides at the end", async () => {
  const [guest, upstream] = [open("hello "), open()];
  const moved = { sent: 0, received: 0 };
  guest.stream.feed("world");
  upstream.stream.feed("bye");
  const running = relay(guest.connection, upstream.connection, 1000, moved);
  await eventually("it is relayed", () => moved.sent === 11 && moved.received === 3);
  guest.stream.feed(null);
  await settle();
  assertEquals([upstream.stream.ends, guest.stream.ends, upstream.stream.closes], [1, 0, 0]);
  upstream.stream.feed(null);
  await running;
  assertEquals([guest.stream.writes.join(""), upstream.stream.writes.join("")], ["bye", "hello world"]);
  assertEquals([guest.stream.closes, upstream.stream.closes], [1, 1]);
});

Deno.test("a relay without bytes for its idle time ends both sides", async () => {
  const [guest, upstream] = [open(), open()];
  const running = assertRejects(
    () => relay(guest.connection, upstream.connection, 20, { sent: 0, received: 0 }),
    ConnectionLost,
    "idle",
  );
  await eventually("both are closed", () => guest.connection.closed && upstream.connection.closed);
  for (const { stream } of [guest, upstream]) stream.feed(new Error("closed"));
  await running;
});

Deno.test("a copy of one direction is whole, counted after it was written, and ends the other side", async () => {
  const [from, to] = [new FakeStream(), new FakeStream()];
  const long = "0123456789".repeat(40_000);
  from.feed(long);
  from.feed(null);
  to.writeMax = 5000;
  const counts: number[] = [];
  await copy(from, to, (count) => counts.push(to.writes.join("").length - count));
  assertEquals([to.writes.join(""), to.ends], [long, 1]);
  assertEquals([counts[0], counts[1]], [0, from.rooms[0]]);
  assert(Math.max(...from.rooms) === 128 * 1024);
  closeQuietly(from);
  closeQuietly(from);
  assertEquals(from.closes, 2);
});
