/** Files with holes, written from pieces of any length. */
import { assert, assertEquals } from "@std/assert";
import { SparseWriter } from "../../../cmd/sbx/files/cp_download.ts";
import { Random } from "../../helper/random.ts";

/** Writes pieces to a file. @returns its content, and the `bytes` that it takes on the disk */
async function written(pieces: Iterable<Uint8Array>): Promise<{ bytes: Uint8Array; allocated: number }> {
  const path = await Deno.makeTempFile();
  try {
    {
      using file = await Deno.open(path, { write: true });
      const writer = new SparseWriter(file);
      for (const piece of pieces) await writer.write(piece);
      await writer.end();
    }
    const { blocks } = await Deno.stat(path);
    return { bytes: await Deno.readFile(path), allocated: blocks! * 512 };
  } finally {
    await Deno.remove(path);
  }
}

function* cut(bytes: Uint8Array, length: () => number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length;) yield bytes.subarray(at, at += Math.max(1, length()));
}

Deno.test("a file has the bytes of its pieces, wherever its zeros are", async () => {
  const random = new Random(7);
  for (let round = 0; round < 40; round++) {
    const bytes = new Uint8Array(random.below(100_000));
    for (let at = 0; at < bytes.length; at += random.below(30_000)) bytes[at++] = 1 + random.below(255);
    const most = random.pick([1, 100, 4096, 5000, 65_536, 1_000_000]);
    const file = await written(cut(bytes, () => most === 1 ? 997 : random.below(most)));
    assertEquals(file.bytes, bytes);
  }
});

Deno.test("blocks of zeros take no room, at the beginning, in the middle and at the end", async () => {
  const bytes = new Uint8Array(8 << 20);
  bytes[3 << 20] = bytes[(3 << 20) + 5000] = 1;
  for (const length of [65_536, 65_000, 1000]) {
    const file = await written(cut(bytes, () => length));
    assertEquals(file.bytes, bytes);
    assert(file.allocated <= 64 * 1024, `${file.allocated}`);
  }
  assertEquals((await written([])).bytes.length, 0);
  assert((await written([new Uint8Array(1 << 20)])).allocated <= 8192);
});
