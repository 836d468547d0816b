/**
 * Options of mkfs.ext4 for a guest's disk. Its tables and its journal are initialized lazily, so that it takes milliseconds and
 * hardly any space. Without a journal ext4 gives no inode out again for minutes after a deletion, and looks at each of those at
 * every creation: `rm -rf node_modules && npm ci` then makes files five times slower than the first time.
 */
export const SCRATCH_OPTIONS: readonly string[] = [
  ...["-q", "-F", "-m", "0", "-J", "size=16"],
  ...["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"],
];
