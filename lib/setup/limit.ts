/** Limits of a setup (docs/design/contracts/14-limits.md §14). */

/** Most `bytes` of a file, and of all. */
export const FILE_MAX = 1024 * 1024;
export const TOTAL_MAX = 16 * 1024 * 1024;
/** Most files, and most folders inside each other. */
export const FILES_MAX = 2000;
export const DEPTH_MAX = 16;
/** Nesting levels of a file of settings. */
export const NESTING_MAX = 64;
/** Most values of a file of settings, the ones behind its aliases as often as they are named. */
export const VALUES_MAX = 200_000;
/** Most entries of a folder that are looked at. */
export const ENTRIES_MAX = 20_000;

/** Most `bytes` of the conversations that are kept for one folder, and most folders and agents with some. */
export const HISTORY_MAX = 256 * 1024 * 1024;
export const HISTORIES_MAX = 200;
