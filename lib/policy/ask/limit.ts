/** Limits of asks (docs/design/contracts/05-policy.md §5, "Asks"). */

/** `s` after which an unanswered ask is a denial, unless its rule has `ask_timeout`. */
export const ASK_TIMEOUT = 60;
/**
 * `ms` after which a guest whose event waits is answered, where it can send the event
 * again: less than clients wait.
 */
export const HELD_MS = 12_000;
/**
 * `s` from its beginning that an ask stays after its guest was answered, unless its rule has `ask_timeout`.
 */
export const ASK_OPEN = 600;
/** `ms` that an answer once holds for an event that is to be sent again. */
export const RETRY_MS = 600_000;
/** Most asks of one scope that wait for a next try alone, and most tries that one answer is kept for. */
export const LEFT_MAX = 3;
/** `s` that a guest is to wait before it sends such an event again. */
export const RETRY_AFTER = 10;
/** Longest `ask_timeout` of a rule, in `s`. */
export const ASK_TIMEOUT_MAX = 86_400;
/** Most pending asks; further ones are denied at once. */
export const ASKS_MAX = 100;
/** Longest approval in minutes. */
export const APPROVAL_MINUTES_MAX = 24 * 60;
/** Longest scope of an answer in characters: a longer one cannot be read, so the answer holds once. */
export const COVERS_MAX = 1024;
/** Longest subject of an ask in characters: a person reads it. */
export const SUBJECT_MAX = 512;
/** Most segments of a request's path that an answer for a path can end at. */
export const PATHS_MAX = 32;
/**
 * `ms` that an ask is shown before it takes an answer: one that is given earlier was meant for another ask.
 */
export const READ_MS = 700;
