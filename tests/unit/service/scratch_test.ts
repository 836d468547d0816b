import { assert, assertEquals } from "@std/assert";
import { makeScratch } from "../../../lib/service/vm/scratch.ts";

const GIB = 1024 ** 3;
/** Place of ext4's magic number in a file system. */
const MAGIC_AT = 1080, MAGIC = [0x53, 0xef];

for (const [what, isBlank, magic] of [["ext4", false, MAGIC], ["blank on a Mac", true, [0, 0]]] as const) {
  Deno.test(`a guest's disk is sparse, and ${what}`, async () => {
    const path = await Deno.makeTempFile();
    await makeScratch(path, 2, isBlank);
    const { size, blocks } = await Deno.stat(path);
    assertEquals(size, 2 * GIB);
    assert(blocks! * 512 < 16 * 1024 * 1024, `${blocks} blocks`);
    using file = await Deno.open(path);
    await file.seek(MAGIC_AT, Deno.SeekMode.Start);
    const bytes = new Uint8Array(2);
    await file.read(bytes);
    assertEquals([...bytes], [...magic]);
    await Deno.remove(path);
  });
}
