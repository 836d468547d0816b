/** Limits of the aggregator, and of data from servers it does not trust. */
import { timeLimit } from "../base/time/mod.ts";

/**
 * Longest line of the aggregator protocol in `bytes`, without its newline (docs/design/contracts/14-limits.md
 * §14).
 */
export const LINE_BYTES_MAX = 1024 * 1024;

/**
 * `bytes` of an answer in parts, and of the parts that the parent holds for all answers
 * (docs/design/contracts/14-limits.md §14).
 */
export const RESULT_BYTES_MAX = 4 * 1024 * 1024;
export const PARTS_TOTAL_MAX = 64 * 1024 * 1024;
/**
 * Characters of one part: as JSON text within JSON each takes at most 3 `bytes`, apart
 * from halves of pairs at its ends.
 */
export const PART_CHARS = 320 * 1024;

/** Servers in one array of definitions; further ones are ignored and logged. */
export const SERVERS_MAX = 512;
/** Concurrent requests of the parent process. */
export const REQUESTS_MAX = 1024;

/** `ms` for a server to answer a request (docs/design/contracts/08-mcp.md §8). */
export const REQUEST_TIMEOUT_MS = timeLimit(60_000);
/** `ms` for a server to answer `tools/call` (docs/design/contracts/08-mcp.md §8). */
export const CALL_TIMEOUT_MS = timeLimit(300_000);
/**
 * `ms` for initialize and the first lists together: the first list of all servers
 * waits this long for a slow one.
 */
export const CONNECT_TIMEOUT_MS = timeLimit(10_000);
/**
 * `ms` for the program of a stdio server to answer initialize, with the boot of its
 * VM; it may fetch itself first.
 */
export const PROGRAM_CONNECT_TIMEOUT_MS = timeLimit(120_000);
/** First and longest pause in `ms` before reconnecting to a server; the pause doubles after each failure. */
export const RECONNECT_MIN_MS = 500;
export const RECONNECT_MAX_MS = 60_000;
/** `ms` for a server to acknowledge the end of its session. */
export const GOODBYE_MS = timeLimit(1000);

/** Entries of one kind per server, and pages of one list. */
export const ENTRIES_MAX = 1000;
export const PAGES_MAX = 100;
/** Characters of a tool or prompt name. */
export const NAME_CHARS_MAX = 128;
/** Characters of a resource URI. */
export const URI_CHARS_MAX = 2048;
/** Characters of a description; a longer one is cut with a visible note. */
export const DESCRIPTION_CHARS_MAX = 16 * 1024;
/** `bytes` of one entry as JSON; a larger entry is omitted. */
export const ENTRY_BYTES_MAX = 128 * 1024;
/** `bytes` of all entries of one kind of one server. */
export const CATALOGUE_BYTES_MAX = 4 * 1024 * 1024;
/** Nesting levels of a result or an entry. */
export const DEPTH_MAX = 200;
/** Nesting levels of a line of the protocol: a result or an entry in its message. */
export const LINE_DEPTH_MAX = DEPTH_MAX + 8;
/** Shortest interval in `ms` between two reads of a list triggered by `list_changed`. */
export const RELIST_INTERVAL_MS = 500;

/** `bytes` of a server's response to one request, including progress. */
export const ANSWER_BYTES_MAX = 4 * 1024 * 1024;
/** `bytes` of one event of a server's own stream. */
export const EVENT_BYTES_MAX = 2 * 1024 * 1024;
/** `bytes` per second read from a server's own stream. */
export const STREAM_BYTES_PER_SECOND = 4 * 1024 * 1024;
/** Shortest interval in `ms` between two openings of a server's own stream, for any `retry:` it requests. */
export const STREAM_INTERVAL_MS = 500;
/** `ms` after the end of a response body before a request without an answer fails. */
export const ANSWER_GRACE_MS = timeLimit(250);

/** Starts of the program of a stdio server within a minute (docs/design/contracts/14-limits.md §14). */
export const PROGRAM_STARTS_PER_MINUTE = 10;

/** Requests of servers that wait for an answer at once. */
export const QUESTIONS_MAX = 16;
/** `bytes` of a log message of a server; a larger one is dropped. */
export const NOTICE_BYTES_MAX = 16 * 1024;

/** Characters of a server's text in one log line or error. */
export const FOREIGN_CHARS_MAX = 300;
/** Log lines per minute. */
export const LOG_LINES_PER_MINUTE = 120;

/** `ms` for a person to log in at a server (docs/design/contracts/14-limits.md §14). */
export const LOGIN_WAIT_MS = 600_000;
/** Logins that wait for a person at once. */
export const LOGINS_MAX = 8;
/** `ms` for one request to an authorization server, and `bytes` of its answer. */
export const OAUTH_REQUEST_MS = timeLimit(15_000);
export const OAUTH_BYTES_MAX = 256 * 1024;
/** Nesting levels of JSON of an authorization server. */
export const OAUTH_DEPTH_MAX = 64;
/** Characters of the scopes of a login. */
export const SCOPE_CHARS_MAX = 2048;
/** `ms` before its end at which a token is renewed. */
export const RENEW_BEFORE_MS = 60_000;

const MINUTE_MS = 60_000;

/** A limit per minute of the clock. */
export class PerMinute {
  readonly #max: number;
  #minute = 0;
  #count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts one. @returns whether it is within the limit */
  take(): boolean {
    const minute = Math.floor(Date.now() / MINUTE_MS);
    if (minute !== this.#minute) this.#count = 0;
    this.#minute = minute;
    return ++this.#count <= this.#max;
  }
}
