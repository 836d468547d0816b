/**
 * Limits of the DNS path (docs/design/contracts/14-limits.md §14): they bound the bytes of guests and
 * resolvers.
 */

/** Longest query in `bytes`; a real one has one name, and an OPT record. */
export const QUERY_BYTES_MAX = 4096;
/** Longest answer in `bytes`: the most that a 16-bit length allows. */
export const ANSWER_BYTES_MAX = 65_535;
/** Most records of one packet, in all sections. */
export const RECORDS_MAX = 512;
/** Longest chain of CNAMEs that is followed in an answer. */
export const CHAIN_MAX = 16;
/** Longest name in `bytes` on the wire (RFC 1035 §2.3.4). */
export const NAME_BYTES_MAX = 255;
/** Longest text of one answer in an event, in characters. */
export const ANSWER_TEXT_MAX = 1024;
/** Longest text of an Extended DNS Error in `bytes`: with it, an answer still fits in 512 bytes. */
export const ERROR_TEXT_MAX = 200;

/**
 * UDP answers in `bytes`: the size that every client accepts (RFC 1035 §4.2.1), and the
 * largest that a client may request.
 */
export const UDP_BYTES_MIN = 512;
export const UDP_BYTES_MAX = 4096;
/**
 * Largest UDP answer requested of resolvers, in `bytes`; they truncate larger
 * ones, which are requested over TCP.
 */
export const RESOLVER_UDP_BYTES = 1232;

/** Most pending queries of a guest; more are refused. */
export const PENDING_MAX = 1024;
/** Longest wait for an answer over UDP in `ms`, less than the second after which clients repeat a query. */
export const UDP_HELD_MS = 700;
/** Most different questions pending at resolvers. */
export const RESOLVER_PENDING_MAX = 256;
/** Timeout of one try in `ms`, and least number of tries for a question. */
export const RESOLVER_TRY_MS = 1500;
export const RESOLVER_TRIES = 3;

export interface CacheLimits {
  entries: number;
  /** `bytes` of all cached answers, as received */
  bytes: number;
  /** shortest and longest time that an answer is cached, in `s` */
  minTtl: number;
  maxTtl: number;
  /** longest time that a missing name or type is cached, and the default, in `s` */
  negativeTtl: number;
}

export const CACHE_LIMITS: Readonly<CacheLimits> = {
  entries: 4096,
  bytes: 8 * 1024 * 1024,
  minTtl: 5,
  maxTtl: 3600,
  negativeTtl: 60,
};

/** Most names whose addresses are remembered for a guest, and most addresses of one name. */
export const RESOLVED_NAMES_MAX = 4096;
export const RESOLVED_ADDRESSES_MAX = 64;

/** TTL in `s` of the made-up address of a name in `network.upstream_overrides`. */
export const OVERRIDE_TTL = 60;
