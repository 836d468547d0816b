/** The output of a job on disk: order, bound, gaps, and readers beside the writer. */
import { assert, assertEquals } from "@std/assert";
import {
  JobOutput,
  lastLines,
  OutputReader,
  type Piece,
  segmentPath,
  segmentsOf,
} from "../../../../lib/session/job/output.ts";

const LIMIT = 8 * 1024;
const encode = (text: string) => new TextEncoder().encode(text);
const decode = (pieces: Piece[]) => pieces.map(({ bytes }) => new TextDecoder().decode(bytes)).join("");

async function inDir(work: (dir: string) => void | Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function readAll(dir: string, from = 0): Piece[] {
  using reader = new OutputReader(dir, from);
  const pieces: Piece[] = [];
  for (let piece = reader.read(); piece; piece = reader.read()) pieces.push(piece);
  return pieces;
}

function sizeOf(dir: string): number {
  return segmentsOf(dir).reduce((sum, start) => sum + Deno.statSync(segmentPath(dir, start)).size, 0);
}

Deno.test("both streams are read in the order of their writes, and only their owner may read the files", () =>
  inDir((dir) => {
    const output = new JobOutput(dir);
    output.append("stdout", encode("one"));
    output.append("stderr", encode("two"));
    output.append("stdout", encode("three"));
    output.close();
    assertEquals(readAll(dir).map(({ stream }) => stream), ["stdout", "stderr", "stdout"]);
    assertEquals(decode(readAll(dir)), "onetwothree");
    assertEquals(Deno.statSync(segmentPath(dir, 0)).mode! & 0o777, 0o600);
  }));

Deno.test("the disk holds no more than the limit, and the end of the output is there with the size of what is missing", () =>
  inDir((dir) => {
    const output = new JobOutput(dir, 0, LIMIT);
    let written = "";
    for (let i = 0; i < 5000; i++) {
      const line = `line ${i}\n`;
      output.append("stdout", encode(line));
      written += line;
      assert(sizeOf(dir) <= LIMIT);
    }
    const pieces = readAll(dir);
    const text = decode(pieces);
    assert(written.endsWith(text));
    assert(sizeOf(dir) > LIMIT / 2);
    assertEquals(pieces[0].missing, written.length - text.length);
    assertEquals(pieces.slice(1).every(({ missing }) => missing === 0), true);
    output.close();
  }));

Deno.test("one write larger than the limit keeps its end", () =>
  inDir((dir) => {
    const output = new JobOutput(dir, 0, LIMIT);
    const bytes = crypto.getRandomValues(new Uint8Array(3 * LIMIT));
    output.append("stdout", bytes);
    output.close();
    const kept = new Uint8Array(readAll(dir).flatMap(({ bytes }) => [...bytes]));
    assertEquals(kept, bytes.slice(-kept.length));
    assert(kept.length > LIMIT / 2);
  }));

Deno.test("a reader continues where it was, also in the middle of a piece and while more is written", () =>
  inDir((dir) => {
    const output = new JobOutput(dir, 0, LIMIT);
    output.append("stdout", encode("abcdef"));
    assertEquals(decode(readAll(dir, 4)), "ef");
    using reader = new OutputReader(dir, 2);
    assertEquals(decode([reader.read()!]), "cdef");
    assertEquals(reader.read(), undefined);
    output.append("stderr", encode("g"));
    assertEquals(decode([reader.read()!]), "g");
    assertEquals(reader.position, 7);
    output.append("stdout", encode("h".repeat(3 * LIMIT)));
    const next = reader.read()!;
    assert(next.missing > 0);
    assertEquals(reader.position, 7 + next.missing + next.bytes.length);
    output.close();
  }));

Deno.test("a record cut by the end of its process is left out, and another process goes on after it", () =>
  inDir((dir) => {
    const output = new JobOutput(dir);
    output.append("stdout", encode("whole"));
    output.append("stdout", encode("cut off"));
    output.close();
    const path = segmentPath(dir, 0);
    Deno.truncateSync(path, Deno.statSync(path).size - 3);
    assertEquals(decode(readAll(dir)), "whole");
    const next = new JobOutput(dir, 5);
    next.append("stdout", encode(", again"));
    next.close();
    assertEquals(decode(readAll(dir)), "whole, again");
  }));

Deno.test("a full disk ends nothing: what it did not take is missing, and the output goes on", async () => {
  if (Deno.uid() !== 0) return;
  await inDir(async (dir) => {
    const mount = async (...args: string[]) =>
      (await new Deno.Command(args[0], { args: args.slice(1), stderr: "null" }).output()).success;
    if (!await mount("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir)) return;
    try {
      const output = new JobOutput(dir);
      output.append("stdout", encode("before"));
      const filler = `${dir}/filler`;
      try {
        for (;;) Deno.writeFileSync(filler, new Uint8Array(4096), { append: true });
      } catch {
        // full
      }
      for (let i = 0; i < 100; i++) output.append("stdout", encode("x".repeat(1000)));
      Deno.removeSync(filler);
      output.append("stdout", encode("after"));
      output.close();
      const pieces = readAll(dir);
      assertEquals(pieces[0].bytes, encode("before"));
      assertEquals(pieces.at(-1)!.bytes, encode("after"));
      const missing = pieces.reduce((sum, piece) => sum + piece.missing, 0);
      assert(missing > 0);
      assertEquals(decode(pieces).length + missing, 6 + 100_000 + 5);
    } finally {
      await mount("umount", dir);
    }
  });
});

Deno.test("the last lines, over pieces and streams", () => {
  const pieces = ["a\nb", "c\nd\n", "e"].map((text) => ({
    stream: "stdout" as const,
    bytes: new TextEncoder().encode(text),
    missing: 0,
  }));
  const last = (count: number, from = pieces) => decode(lastLines(from, count));
  assertEquals([0, 1, 2, 3, 4, 9].map((count) => last(count)), [
    "",
    "e",
    "d\ne",
    "bc\nd\ne",
    "a\nbc\nd\ne",
    "a\nbc\nd\ne",
  ]);
  assertEquals(last(1, pieces.slice(0, 2)), "d\n");
  assertEquals(last(1, []), "");
});
