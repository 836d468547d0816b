const COMMON_OPTIONS = ["-q", "-F", "-m", "0", "-J", "size=16"];

/**
 * Options of mkfs.ext4 for a guest's disk, a file of zeros: its tables and its journal are not written, so
 * that it takes milliseconds and hardly any space. Without a journal ext4 gives no inode out again for
 * minutes after a deletion, and looks at each of those at every creation: `rm -rf node_modules && npm ci`
 * then makes files five times slower than the first time.
 */
export const SCRATCH_OPTIONS: readonly string[] = [
  ...COMMON_OPTIONS,
  ...["-E", "assume_storage_prezeroed=1,lazy_journal_init=1,nodiscard"],
];

/**
 * The same for e2fsprogs before 1.47: the guest writes zeros into its tables in its first minutes, 320 MiB
 * for a disk of 20 GiB, which take the time of its programs where the rate of the disk is limited.
 */
export const OLD_SCRATCH_OPTIONS: readonly string[] = [
  ...COMMON_OPTIONS,
  ...["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"],
];

/** Place of ext4's superblock and of its fields (Documentation/filesystems/ext4/super.rst), in `bytes`. */
const SUPERBLOCK = {
  at: 1024,
  length: 1024,
  blocks: 4,
  blockSize: 24,
  magic: 56,
  features: 96,
  blocksHigh: 0x150,
};
const EXT4_MAGIC = 0xef53;
/** Feature of a file system with the upper half of its number of blocks. */
const EXT4_64BIT = 0x80;

/**
 * Whether the file of a guest's disk is larger than the file system in it: the guest enlarges that while
 * it boots, since the host hands the file system of a guest to no program of its own. The guest's bytes
 * decide only whether it is asked to.
 */
export function isEnlarged(path: string): boolean {
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(SUPERBLOCK.length);
  file.seekSync(SUPERBLOCK.at, Deno.SeekMode.Start);
  if (file.readSync(bytes) !== bytes.length) return false;
  const view = new DataView(bytes.buffer);
  if (view.getUint16(SUPERBLOCK.magic, true) !== EXT4_MAGIC) return false;
  const blockSize = 1024 * 2 ** (view.getUint32(SUPERBLOCK.blockSize, true) & 0xf);
  const high = view.getUint32(SUPERBLOCK.features, true) & EXT4_64BIT
    ? view.getUint32(SUPERBLOCK.blocksHigh, true) * 2 ** 32
    : 0;
  return (high + view.getUint32(SUPERBLOCK.blocks, true) + 1) * blockSize <= file.statSync().size;
}

/**
 * Makes the file of a guest's disk larger, sparsely; the guest's next boot uses
 * it (see {@linkcode isEnlarged}).
 */
export async function enlarge(path: string, gigabytes: number): Promise<void> {
  const { size } = await Deno.stat(path);
  if (size < gigabytes * 1024 ** 3) await Deno.truncate(path, gigabytes * 1024 ** 3);
}
