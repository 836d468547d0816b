/** Limits on reading git's requests (docs/design/contracts/05-policy.md §5, "Git"). */

/** Longest commands of one push, in `bytes`: everything before its pack. */
export const COMMANDS_MAX = 512 * 1024;
/** Most updates of one push; a mirror of more refs is pushed in parts. */
export const UPDATES_MAX = 1000;
/** Longest packet with its length, in `bytes` (git's LARGE_PACKET_MAX). */
export const PACKET_MAX = 65_520;
/** Longest packet of a client that knows `side-band` only, in `bytes`. */
export const SMALL_BAND_MAX = 1000;
