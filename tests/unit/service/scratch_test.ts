import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { diskGb, growDisk, makeScratch } from "../../../lib/service/vm/disk.ts";
import { vmPaths } from "../../../lib/session/mod.ts";
import { recordOf } from "../../helper/vm.ts";

const GIB = 1024 ** 3;
/**
 * ext4's superblock, and the places in it of its magic number and of the features that any kernel may ignore.
 */
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

/** A VM whose record and disk differ, as a service that was killed in between leaves them. */
async function withDisk(
  scratch_gb: number,
  fileGb: number,
  look: (vm: Parameters<typeof growDisk>[0]) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const paths = vmPaths(dir);
    await Deno.writeFile(paths.scratch, new Uint8Array());
    await Deno.truncate(paths.scratch, fileGb * GIB);
    const record = { ...recordOf(crypto.randomUUID(), "dev"), scratch_gb };
    await look({ record, paths });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a disk that is larger than its record has its file's size, and does not shrink to a size in between", () =>
  withDisk(2, 4, async (vm) => {
    assertEquals(await diskGb(vm), 4);
    const { code } = await assertRejects(() => growDisk(vm, 3), SbxError);
    assertEquals(code, "disk.shrinks");
    await growDisk(vm, 4);
    await growDisk(vm, 5);
    assertEquals((await Deno.stat(vm.paths.scratch)).size, 5 * GIB);
  }));

Deno.test("a disk that is smaller than its record grows to the size of the record", () =>
  withDisk(4, 2, async (vm) => {
    assertEquals(await diskGb(vm), 4);
    await growDisk(vm, 4);
    assertEquals((await Deno.stat(vm.paths.scratch)).size, 4 * GIB);
  }));

Deno.test("a first disk replaces one that was left half made, and larger", () =>
  withDisk(0, 4, async (vm) => {
    assertEquals(await diskGb(vm), 0);
    await growDisk(vm, 2);
    assertEquals((await Deno.stat(vm.paths.scratch)).size, 2 * GIB);
  }));
