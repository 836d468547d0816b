/** Limits of asks (docs/contracts.md §5, "Asks"). */

/** `ms` after which an unanswered ask is a denial. */
export const ASK_TIMEOUT_MS = 60_000;
/** Most pending asks; further ones are denied at once. */
export const ASKS_MAX = 100;
/** Longest approval in minutes. */
export const APPROVAL_MINUTES_MAX = 24 * 60;
/** Longest subject of an ask in characters: a person reads it. */
export const SUBJECT_MAX = 512;
