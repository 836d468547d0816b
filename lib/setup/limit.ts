/** Limits of a setup (docs/design/contracts/14-limits.md §14). */

/** Most `bytes` of a file, and of all. */
export const FILE_MAX = 1024 * 1024;
export const TOTAL_MAX = 16 * 1024 * 1024;
/** Most files, and most folders inside each other. */
export const FILES_MAX = 2000;
export const DEPTH_MAX = 16;
/** Nesting levels of a file of settings. */
export const NESTING_MAX = 64;
/** Most entries of a folder that are looked at. */
export const ENTRIES_MAX = 20_000;
