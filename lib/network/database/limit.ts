/** Limits of the databases' protocols (docs/design/contracts/14-limits.md §14). */

/** Longest message before the login is done, in `bytes`: PostgreSQL's own limit of a StartupMessage. */
export const LOGIN_MESSAGE_MAX = 10_000;
/** Longest answer of a server during the login, in `bytes`. */
export const SERVER_LOGIN_MAX = 64 * 1024;
/** Most messages of a server during the login. */
export const LOGIN_MESSAGES_MAX = 256;
/** Longest statement, in `bytes`; it is held whole before the decision. */
export const STATEMENT_MAX = 8 * 1024 * 1024;
/** Longest message that carries data, in `bytes`; it streams. PostgreSQL's own limit. */
export const DATA_MESSAGE_MAX = 0x3fff_ffff;
/** Most prepared statements, and most portals, of one connection. */
export const PREPARED_MAX = 10_000;
/** Most statements of one connection that wait for their answers. */
export const PENDING_MAX = 10_000;
/** Most rounds of SCRAM's hash that a server may ask for; PostgreSQL's default is 4,096. */
export const SCRAM_ROUNDS_MAX = 1_000_000;
/** Longest fingerprint of a statement in its event, in characters. */
export const FINGERPRINT_MAX = 2048;
/** Most arguments of a Redis command; its own limit is the same. */
export const ARGUMENTS_MAX = 1024 * 1024;
/** Longest line of a Redis answer, in `bytes`. */
export const ANSWER_LINE_MAX = 64 * 1024;
/** Most characters of a prepared statement's name in events: all that PostgreSQL keeps. */
export const PREPARED_NAME_MAX = 64;
