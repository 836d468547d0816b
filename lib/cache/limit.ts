/** Limits of the cache's Debian indexes (docs/design/contracts/14-limits.md §14). */

/** Longest index of a suite of Debian packages, packed and unpacked, in `bytes`. */
export const INDEX_MAX = 32 * 1024 * 1024;
export const INDEX_TEXT_MAX = 256 * 1024 * 1024;
/** Longest line of one that may be read, in `bytes`, and most packages. */
export const LINE_MAX = 1024 * 1024;
export const PACKAGES_MAX = 2 ** 18;
/** Most indexes of a suite that are remembered. */
export const SUITE_INDEXES_MAX = 256;
/** Longest path of a suite's files, in characters. */
export const SUITE_PATH_MAX = 1024;
/**
 * Most indexes that a VM's process holds, and time in `ms` after which it forgets one that nothing asks for.
 */
export const INDEXES_MAX = 4;
export const INDEX_UNUSED_MS = 120_000;
/** Most archives of Debian packages, and suites of one, that are remembered for a VM. */
export const ARCHIVES_MAX = 16;
export const SUITES_MAX = 16;
/** `bytes` of an index that are unpacked at once. */
export const CHUNK = 64 * 1024;
