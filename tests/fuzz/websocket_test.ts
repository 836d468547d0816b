/**
 * Frames of WebSockets, valid and damaged, in any pieces; and secrets cut anywhere into frames and messages.
 */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { constants, deflateRawSync } from "node:zlib";
import { BufferedConnection, type ByteStream, DeadlineWatch } from "../../lib/network/connection.ts";
import { ConnectionLost } from "../../lib/network/fault.ts";
import { FrameReader, FrameWriter, parseFrameHead } from "../../lib/network/websocket/frame.ts";
import { SocketFault } from "../../lib/network/websocket/fault.ts";
import { agreeWithGuest, EXTENSIONS } from "../../lib/network/websocket/mod.ts";
import { added, ALL, KEY, to, world } from "../helper/credential.ts";
import { Random } from "../helper/random.ts";
import { frameBytes, type WireFrame } from "../helper/websocket.ts";

const ROUNDS = 2000;

/** A stream that reads given bytes in pieces, and keeps what is written. */
function streamOf(random: Random, bytes: Uint8Array): ByteStream & { written: Uint8Array[] } {
  let at = 0;
  const written: Uint8Array[] = [];
  return {
    written,
    read(into) {
      if (at === bytes.length) return Promise.resolve(null);
      const count = Math.min(1 + random.below(300), into.length, bytes.length - at);
      into.set(bytes.subarray(at, at += count));
      return Promise.resolve(count);
    },
    write(piece) {
      written.push(piece.slice());
      return Promise.resolve(piece.length);
    },
    close() {},
  };
}

/** A message in random frames, with control frames between them. */
function message(random: Random, text: string): WireFrame[] {
  const frames: WireFrame[] = [];
  const bytes = new TextEncoder().encode(text);
  const opcode = 1 + random.below(2);
  for (let at = 0, first = true; first || at < bytes.length; first = false) {
    const count = random.below(bytes.length - at + 1);
    const fin = at + count === bytes.length;
    frames.push({ fin, opcode: first ? opcode : 0, payload: bytes.slice(at, at + count) });
    at += count;
    if (random.below(4) === 0) {
      frames.push({ opcode: 9 + random.below(2), payload: random.bytes(random.below(125)) });
    }
    if (fin) break;
  }
  return frames;
}

Deno.test("frames: what was sent is read, and written so that it reads the same", async () => {
  const random = new Random(6455);
  const watch = new DeadlineWatch();
  for (let round = 0; round < ROUNDS; round++) {
    const texts = Array.from({ length: 1 + random.below(4) }, () => "aü🙂".repeat(random.below(200)));
    const masked = random.below(2) === 0;
    const side = masked ? "guest" : "upstream";
    const frames = texts.flatMap((text) => message(random, text)).map((frame) =>
      frameBytes({ masked, ...frame })
    );
    const connection = new BufferedConnection(streamOf(random, Buffer.concat(frames)), watch);
    const reader = new FrameReader(connection, side);
    const sink = streamOf(random, new Uint8Array());
    const other = masked ? "upstream" : "guest";
    const output = new BufferedConnection(sink, watch);
    const writer = new FrameWriter(output, other);
    const read: string[] = [""];
    for (let next = await reader.next(); next !== null; next = await reader.next()) {
      if (next.kind !== "data") continue;
      read[read.length - 1] += Buffer.from(next.bytes).toString("latin1");
      await writer.writeData(next.isText, next.bytes, next.isLast);
      if (next.isLast) read.push("");
    }
    const expected = [...texts.map((text) => Buffer.from(text).toString("latin1")), ""];
    assertEquals(read, expected);
    assertEquals(reader.bytes, Buffer.concat(frames).length);
    const again = new BufferedConnection(streamOf(random, Buffer.concat(sink.written)), watch);
    const second = new FrameReader(again, masked ? "guest" : "upstream");
    const reread: string[] = [""];
    for (let next = await second.next(); next !== null; next = await second.next()) {
      if (next.kind !== "data") throw new Error(`a ${next.kind} that was not written`);
      reread[reread.length - 1] += Buffer.from(next.bytes).toString("latin1");
      if (next.isLast) reread.push("");
    }
    assertEquals(reread, expected);
    for (const each of [connection, output, again]) each.close();
  }
});

Deno.test("damaged frames: each is read or refused, and nothing else happens", async () => {
  const random = new Random(1002);
  const watch = new DeadlineWatch();
  const seen = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const frames = message(random, "aü🙂".repeat(random.below(100))).map((frame) =>
      frameBytes({ masked: true, ...frame })
    );
    const bytes = [...Buffer.concat(frames)];
    for (let damage = 1 + random.below(4); damage > 0; damage--) {
      const at = random.below(Math.min(bytes.length, 40));
      if (random.below(3) === 0) bytes.splice(at, 1 + random.below(3));
      else bytes[at] ^= 1 << random.below(8);
    }
    const connection = new BufferedConnection(streamOf(random, Uint8Array.from(bytes)), watch);
    const reader = new FrameReader(connection, "guest");
    try {
      while (await reader.next() !== null);
      assert(reader.bytes <= bytes.length);
      seen.add("read");
    } catch (error) {
      assert(error instanceof SocketFault || error instanceof ConnectionLost, `${(error as Error).stack}`);
      seen.add(error instanceof SocketFault ? error.reason : "lost");
    }
    connection.close();
    try {
      const head = parseFrameHead(random.bytes(random.below(20)), random.below(2) ? "guest" : "upstream");
      if (head) assert(head.size <= 14 && Number.isSafeInteger(head.length));
    } catch (error) {
      assert(error instanceof SocketFault);
    }
  }
  assert(seen.size >= 6, `${[...seen]}`);
});

Deno.test("damaged compressed messages: each is read or refused, within its limit", async () => {
  const random = new Random(7692);
  const watch = new DeadlineWatch();
  const seen = new Set<string>();
  const deflate = agreeWithGuest([[EXTENSIONS, "permessage-deflate"]])!;
  for (let round = 0; round < ROUNDS / 4; round++) {
    const text = "aü🙂".repeat(random.below(5000)) + random.bytes(random.below(100)).join();
    const packed = deflateRawSync(text, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, -4);
    const cut = random.below(packed.length);
    const isDamaged = random.below(4) > 0;
    for (let damage = isDamaged ? 1 + random.below(3) : 0; damage > 0; damage--) {
      packed[random.below(packed.length)] ^= 1 << random.below(8);
    }
    const frames: WireFrame[] = [
      { rsv: 4, fin: false, opcode: 1 + random.below(2), payload: packed.subarray(0, cut) },
      { opcode: 0, payload: packed.subarray(cut) },
    ];
    const wire = Buffer.concat(frames.map((frame) => frameBytes({ masked: true, ...frame })));
    const connection = new BufferedConnection(streamOf(random, wire), watch);
    const reader = new FrameReader(connection, "guest", deflate);
    let read = "";
    try {
      for (let next = await reader.next(); next !== null; next = await reader.next()) {
        if (next.kind === "data") read += Buffer.from(next.bytes).toString("latin1");
      }
      if (!isDamaged) assertEquals(read, Buffer.from(text).toString("latin1"));
      seen.add("read");
    } catch (error) {
      const reason = error instanceof SocketFault ? error.reason : undefined;
      assert(isDamaged && reason !== undefined, `${(error as Error).stack}`);
      seen.add(reason!);
    }
    reader.close();
    connection.close();
  }
  assert(seen.size >= 3, `${[...seen]}`);
});

Deno.test(
  "secrets in messages: however they are cut, no nine characters of one pass, and other text passes as it is",
  world(added, async ({ open, refs }) => {
    const broker = await open(ALL);
    const random = new Random(1008);
    const secrets = [KEY.github, KEY.google, KEY.openai, KEY.mcp];
    for (let round = 0; round < ROUNDS; round++) {
      const direction = random.below(2) === 0 ? "request" : "response";
      const filter = broker.messages({ ...to("chat.example.com"), direction });
      const secret = random.pick(secrets);
      const isPlain = random.below(4) === 0;
      const [before, after] = [". ".repeat(random.below(20)), " .".repeat(random.below(20))];
      const whole = Buffer.from(before + (isPlain ? "nothing here" : secret) + after);
      let passed = "";
      for (let at = 0; at < whole.length;) {
        const count = 1 + random.below(random.pick([3, 12, 100]));
        const isLast = at + count >= whole.length || random.below(3) === 0;
        passed += Buffer.from(filter.push(whole.subarray(at, at + count), isLast)).toString("latin1");
        at += count;
      }
      if (isPlain) assertEquals(passed, `${whole}`);
      else {
        assert(passed.startsWith(before) && passed.endsWith(after), passed);
        // From the second character: "mcp/se" and "credential-withheld" make nine.
        for (let at = 1; at + 9 <= secret.length; at++) {
          assert(!passed.includes(secret.slice(at, at + 9)), `${direction}: ${passed}`);
        }
        const { length } = filter.substitutions;
        assert(length > 0 && length <= 32, JSON.stringify(filter.substitutions));
        assert(!JSON.stringify(filter.substitutions).includes(secret));
      }
    }
    assert(Object.keys(refs).length > 0);
  }),
);
