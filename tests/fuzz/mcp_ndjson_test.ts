/** Lines and frames of random bytes, cut anywhere. */
import { assertEquals } from "@std/assert";
import { isDeeper } from "../../lib/base/json/mod.ts";
import { FrameKind, FrameWire } from "../../lib/mcp/outbound/frame.ts";
import { byteLength, fitsLine, readLines, readRequest } from "../../lib/mcp/protocol.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 400;

/** A source that returns bytes in pieces of random size. */
function source(bytes: Uint8Array, random: Random) {
  let at = 0;
  return {
    read(into: Uint8Array): Promise<number | null> {
      if (at === bytes.length) return Promise.resolve(null);
      const count = Math.min(into.length, bytes.length - at, 1 + random.below(40));
      into.set(bytes.subarray(at, at + count));
      at += count;
      return Promise.resolve(count);
    },
  };
}

/** Random text with characters that are special for lines and JSON. */
function randomText(random: Random, limit: number): string {
  const pieces = [
    "{",
    "}",
    '"',
    "\\",
    "\r",
    "é",
    "🦀",
    "\u2028",
    "\0",
    "id",
    "[",
    "]",
    "1",
    "method",
    ":",
    ",",
  ];
  return Array.from({ length: random.below(limit) }, () => random.pick(pieces)).join("");
}

Deno.test("mcp lines: the same lines however the bytes are cut; only overlong ones are skipped", async () => {
  const random = new Random(1);
  const encoder = new TextEncoder();
  const max = 60;
  for (let round = 0; round < ROUNDS; round++) {
    const lines = Array.from({ length: random.below(12) }, () => randomText(random, 40));
    const cut = random.below(2) ? randomText(random, 20) : "";
    const seen = await Array.fromAsync(
      readLines(source(encoder.encode(lines.map((line) => `${line}\n`).join("") + cut), random), max),
    );
    const expected = lines.map((line) => encoder.encode(line).length > max ? null : line);
    if (cut) expected.push(null);
    assertEquals(seen.map((line) => "text" in line ? line.text : null), expected);
  }
});

Deno.test("mcp lines: random bytes never throw, and the measured length is the written length", async () => {
  const random = new Random(2);
  for (let round = 0; round < ROUNDS; round++) {
    const bytes = random.bytes(random.below(300)).map((byte) => random.below(10) ? byte : 10);
    for await (const line of readLines(source(bytes, random), 100)) {
      if ("text" in line) readRequest(line.text);
    }
    const text = randomText(random, 60) + (random.below(4) ? "" : "\ud83e");
    const size = new TextEncoder().encode(text.toWellFormed()).length;
    if (text.isWellFormed()) assertEquals(byteLength(text), size);
    assertEquals(fitsLine(text.toWellFormed(), size), true);
    if (size > 0) assertEquals(fitsLine(text.toWellFormed(), size - 1), false);
  }
});

Deno.test("mcp answers: nesting is counted like JSON.parse does", () => {
  const random = new Random(3);
  const make = (depth: number): unknown => {
    if (depth === 0) return random.pick(['[[{"', 1, null, "\\", '"]', "}"]);
    return random.below(2) ? [random.pick(["[", 2]), make(depth - 1)] : { ['{"[']: make(depth - 1), z: "]]" };
  };
  for (let round = 0; round < ROUNDS; round++) {
    const depth = random.below(12);
    const json = JSON.stringify(make(depth));
    assertEquals(isDeeper(json, depth), false, json);
    if (depth > 0) assertEquals(isDeeper(json, depth - 1), true, json);
  }
});

Deno.test("mcp frames: sent frames are received, and random bytes only end the wire", async () => {
  const random = new Random(4);
  const dir = await Deno.makeTempDir();
  using listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
  for (let round = 0; round < 60; round++) {
    const [far, near] = await Promise.all([
      listener.accept(),
      Deno.connect({ transport: "unix", path: `${dir}/s` }),
    ]);
    const wire = new FrameWire(far);
    if (round % 2) {
      const read = wire.receive(({ payload }) => payload.length >= 0);
      await near.write(random.bytes(1 + random.below(2000)));
      near.close();
      await read;
    } else {
      const sent = Array.from(
        { length: random.below(20) },
        () => ({ id: random.next(), text: randomText(random, 3000) }),
      );
      const out = new FrameWire(near);
      const seen: typeof sent = [];
      const read = wire.receive(({ id, payload }) =>
        seen.push({ id, text: new TextDecoder().decode(payload) }) > 0
      );
      for (const { id, text } of sent) {
        out.send(FrameKind.Data, id, random.below(2) ? text : new TextEncoder().encode(text));
        if (random.below(2)) await new Promise((resolve) => setTimeout(resolve, 0));
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
      near.closeWrite();
      await read;
      assertEquals(seen, sent);
      near.close();
    }
    wire.close();
  }
  await Deno.remove(dir, { recursive: true });
});
