/** Limits of segments (docs/design/contracts/14-limits.md §14). */

/** Largest segment as sent, and largest unpacked, in `bytes`: one event can have 32 MiB of text. */
export const SEGMENT_BYTES_MAX = 64 * 1024 * 1024;
export const BODY_BYTES_MAX = 256 * 1024 * 1024;
/** Largest header in its envelope, in `bytes`. */
export const HEADER_BYTES_MAX = 16 * 1024;
