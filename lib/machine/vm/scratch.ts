/**
 * Options of mkfs.ext4 for a guest's disk: its tables are initialized lazily, so that it takes milliseconds and hardly any space.
 */
export const SCRATCH_OPTIONS: readonly string[] = [
  ...["-q", "-F", "-m", "0", "-O", "^has_journal"],
  ...["-E", "lazy_itable_init=1,nodiscard"],
];
