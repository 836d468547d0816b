/** Every bound of the aggregator, and of what it believes of servers that it does not know. */

/** Longest line of the aggregator protocol, without its newline (spec.md, "Limits": 1 MB). */
export const LINE_BYTES_MAX = 1024 * 1024;

/** Servers in one array of definitions; the rest is refused with a line in the log. */
export const SERVERS_MAX = 512;
/** Requests of the parent that are worked on at once. */
export const REQUESTS_MAX = 1024;

/** Time that a server has to answer a request (contracts.md §8). */
export const REQUEST_TIMEOUT_MS = 60_000;
/** The same for `tools/call` (contracts.md §8). */
export const CALL_TIMEOUT_MS = 300_000;
/** Time for initialize and the first lists together: lists of all servers wait that long for a slow one, once. */
export const CONNECT_TIMEOUT_MS = 10_000;
/** Pause before a server that was lost is tried again; it doubles, up to the longest. */
export const RECONNECT_MIN_MS = 500;
export const RECONNECT_MAX_MS = 60_000;
/** Time that a server gets to hear that its session is over. */
export const GOODBYE_MS = 1000;

/** Entries of one kind that one server may list, and the pages that it may list them on. */
export const ENTRIES_MAX = 1000;
export const PAGES_MAX = 100;
/** Characters of the name of a tool or prompt. */
export const NAME_CHARS_MAX = 128;
/** Characters of a resource's URI. */
export const URI_CHARS_MAX = 2048;
/** Characters of a description; what is over is cut off, visibly. */
export const DESCRIPTION_CHARS_MAX = 16 * 1024;
/** Bytes of one entry as JSON; one that is larger is left out. */
export const ENTRY_BYTES_MAX = 128 * 1024;
/** Bytes of all entries of one kind of one server. */
export const CATALOGUE_BYTES_MAX = 4 * 1024 * 1024;
/** Levels that a result or an entry may be nested. */
export const DEPTH_MAX = 200;
/** Shortest time between two lists that a server asks for by `list_changed`. */
export const RELIST_INTERVAL_MS = 500;

/** Bytes of a server's whole answer to one request, progress included. */
export const ANSWER_BYTES_MAX = 4 * 1024 * 1024;
/** Bytes of one event of a server's own stream. */
export const EVENT_BYTES_MAX = 2 * 1024 * 1024;
/** Bytes a second of a server's own stream; more is not read before its time. */
export const STREAM_BYTES_PER_SECOND = 4 * 1024 * 1024;
/** Shortest time between two openings of a server's own stream, whatever `retry:` it asks for. */
export const STREAM_INTERVAL_MS = 500;
/** Grace between the end of an answer's bytes and the verdict that the answer was not in them. */
export const ANSWER_GRACE_MS = 250;

/** Characters that a log line or an error takes over from a server. */
export const FOREIGN_CHARS_MAX = 300;
/** Lines that the aggregator logs in a minute. */
export const LOG_LINES_PER_MINUTE = 120;
