import { assert, assertEquals } from "@std/assert";
import { makeScratch } from "../../../lib/service/vm/vm_files.ts";

const GIB = 1024 ** 3;
/** ext4's superblock, and the places in it of its magic number and of the features that any kernel may ignore. */
const SUPERBLOCK_AT = 1024, MAGIC_AT = 0x38, FEATURES_AT = 0x5c;
const MAGIC = 0xef53, HAS_JOURNAL = 0x4;

/** @returns of a new disk of 2 GiB */
async function madeDisk(
  isBlank: boolean,
): Promise<{ superblock: DataView; size: number; bytesInUse: number }> {
  const path = await Deno.makeTempFile();
  try {
    await makeScratch(path, 2, isBlank);
    const { size, blocks } = await Deno.stat(path);
    using file = await Deno.open(path);
    await file.seek(SUPERBLOCK_AT, Deno.SeekMode.Start);
    const bytes = new Uint8Array(1024);
    await file.read(bytes);
    return { superblock: new DataView(bytes.buffer), size, bytesInUse: blocks! * 512 };
  } finally {
    await Deno.remove(path);
  }
}

for (const [what, isBlank, magic] of [["ext4", false, MAGIC], ["blank on a Mac", true, 0]] as const) {
  Deno.test(`a guest's disk is sparse, and ${what}`, async () => {
    const { superblock, size, bytesInUse } = await madeDisk(isBlank);
    assertEquals(size, 2 * GIB);
    assert(bytesInUse < 16 * 1024 * 1024, `${bytesInUse} bytes`);
    assertEquals(superblock.getUint16(MAGIC_AT, true), magic);
  });
}

Deno.test("a guest's disk has a journal, without which files are made slowly after others were deleted", async () => {
  const { superblock } = await madeDisk(false);
  assertEquals(superblock.getUint32(FEATURES_AT, true) & HAS_JOURNAL, HAS_JOURNAL);
});
