/** Limits of the shared cache (docs/design/contracts/14-limits.md §14). */

/** Longest artefact that is kept, in `bytes`. */
export const ARTIFACT_MAX = 4 * 1024 ** 3;
/** Longest artefact that is read whole before its first byte goes to a guest, in `bytes`; each connection may hold one. */
export const WHOLE_MAX = 256 * 1024;
/** `bytes` of the disk that the cache leaves free. */
export const FREE_MIN = 1024 ** 3;
/** Part of the maximum size that stays after the least used artefacts were removed. */
export const KEPT_PART = 0.9;
/** Longest record of an artefact, in `bytes`: its URL is a head's. */
export const RECORD_MAX = 128 * 1024;
/** Age of an unfinished copy that no process writes any more, in `ms`. */
export const STALE_MS = 24 * 3600 * 1000;
/** Longest index of a suite of Debian packages, compressed and not, and longest line of it, in `bytes`. */
export const INDEX_MAX = 32 * 1024 * 1024;
export const INDEX_TEXT_MAX = 256 * 1024 * 1024;
export const INDEX_LINE_MAX = 1024 * 1024;
/** Most indexes that a VM's process holds, and time in `ms` after which it forgets one that nothing asks for. */
export const INDEXES_MAX = 4;
export const INDEX_UNUSED_MS = 120_000;
/** Most archives of Debian packages, and suites of one, that are remembered for a VM. */
export const ARCHIVES_MAX = 16;
export const SUITES_MAX = 16;
/** `bytes` of one read. */
export const CHUNK = 64 * 1024;
/** `bytes` of a copy after which the disk is looked at again: lengths may be unknown, and other copies grow too. */
export const ROOM_STEP = 16 * 1024 * 1024;
