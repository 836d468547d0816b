/** Every limit of the DNS path: the bytes of guests and of resolvers are bounded by these (issue 5, "Bad input and faults"). */

/** Longest query; a real one has one name in it, and an OPT record. */
export const QUERY_BYTES_MAX = 4096;
/** Longest answer, which is what a length of 16 bits allows. */
export const ANSWER_BYTES_MAX = 65_535;
/** Most records of one packet, all sections together. */
export const RECORDS_MAX = 512;
/** Longest chain of CNAMEs that is followed in an answer. */
export const CHAIN_MAX = 16;
/** Longest name, as bytes on the wire (RFC 1035 §2.3.4). */
export const NAME_BYTES_MAX = 255;
/** Longest text of one answer in an event. */
export const ANSWER_TEXT_MAX = 1024;
/** Longest text of an Extended DNS Error, in bytes: with it an answer still fits in 512. */
export const ERROR_TEXT_MAX = 200;
/** Longest program name that is taken over from the guest. */
export const PROCESS_NAME_MAX = 64;

/** UDP answers: what every client takes (RFC 1035 §4.2.1), and most that one may ask for. */
export const UDP_BYTES_MIN = 512;
export const UDP_BYTES_MAX = 4096;
/** UDP answers of resolvers: larger ones are truncated there, and asked for again over TCP. */
export const UPSTREAM_UDP_BYTES = 1232;

/** Queries that may wait for people and resolvers at once; a guest that sends more is refused. */
export const PENDING_MAX = 1024;
/** Different questions that may be under way to resolvers at once. */
export const UPSTREAM_PENDING_MAX = 256;
/** Milliseconds that one resolver gets for one answer, and how many times one is asked. */
export const UPSTREAM_TRY_MS = 1500;
export const UPSTREAM_TRIES = 3;

/** What the cache holds. */
export interface CacheLimits {
  entries: number;
  /** bytes of all answers together, as they came */
  bytes: number;
  /** seconds that an answer is kept, whatever its TTL says */
  minTtl: number;
  maxTtl: number;
  /** seconds that a name or type is known not to exist, at most and when nothing says how long */
  negativeTtl: number;
}

export const CACHE_LIMITS: Readonly<CacheLimits> = {
  entries: 4096,
  bytes: 8 * 1024 * 1024,
  minTtl: 5,
  maxTtl: 3600,
  negativeTtl: 60,
};

/** Names whose addresses are remembered for one guest, and addresses of one name. */
export const GIVEN_NAMES_MAX = 4096;
export const GIVEN_ADDRESSES_MAX = 64;

/** Seconds that a guest may keep the made-up address of a name in `network.upstream_overrides`. */
export const OVERRIDE_TTL = 60;
