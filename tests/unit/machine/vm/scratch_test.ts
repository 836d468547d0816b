/** Disks of guests that grow. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { enlarge, isEnlarged } from "../../../../lib/machine/vm/mod.ts";
import { makeScratch } from "../../../../lib/service/vm/disk.ts";

const GIB = 1024 ** 3;

Deno.test("a disk that was made larger than its file system is seen, whatever a guest wrote there", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "disk");
    await makeScratch(path, 2, false);
    assertEquals([(await Deno.stat(path)).size, isEnlarged(path)], [2 * GIB, false]);
    await enlarge(path, 3);
    assertEquals([(await Deno.stat(path)).size, isEnlarged(path)], [3 * GIB, true]);
    await enlarge(path, 1);
    assertEquals((await Deno.stat(path)).size, 3 * GIB, "it never shrinks");
    const superblock = async (bytes: Uint8Array) => {
      using file = await Deno.open(path, { write: true });
      await file.seek(1024, Deno.SeekMode.Start);
      await file.write(bytes);
    };
    await superblock(crypto.getRandomValues(new Uint8Array(1024)).fill(0, 56, 58));
    assertEquals(isEnlarged(path), false, "no ext4");
    await superblock(new Uint8Array(1024).fill(0xff));
    assertEquals(isEnlarged(path), false, "no ext4 that is smaller");
    await Deno.truncate(path, 1500);
    assertEquals(isEnlarged(path), false, "no superblock");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
