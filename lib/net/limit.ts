/** Every limit of the network path: guest and upstream bytes are bounded by these, and by nothing else (issue 5). */

/** Longest head of a request or an answer, with all its fields; longer ones are refused. */
export const HEAD_MAX = 64 * 1024;
/** Most header fields of a head, and of trailers. */
export const HEADERS_MAX = 200;
/** Longest method. */
export const METHOD_MAX = 32;
/** Longest first line by which HTTP is told from other protocols. */
export const FIRST_LINE_MAX = HEAD_MAX;
/** Longest line before a chunk, extensions included. */
export const CHUNK_LINE_MAX = 1024;
/** Longest trailers. */
export const TRAILERS_MAX = 16 * 1024;
/** Longest ClientHello; those of browsers with post-quantum keys have 2 KB. */
export const HELLO_MAX = 32 * 1024;
/** Interim answers (1xx) that an upstream may send before its answer. */
export const INTERIM_MAX = 16;

/** Bytes of a body that become part of its event (contracts.md §5), before and after its encoding is undone. */
export const CAPTURE_MAX = 64 * 1024;
/** Longest answer that is read whole before the guest gets its first byte: rules can then look at its text. */
export const WHOLE_MAX = 64 * 1024;
/**
 * Longest request that is held until it is decided on. It goes out with an exact length then, whatever was put into it
 * or left out; a longer one streams, and a change of its length ends it.
 */
export const HELD_MAX = 8 * 1024 * 1024;
/** Most bytes that all requests of a VM may have held so at once; above it, requests stream. */
export const HELD_TOTAL_MAX = 128 * 1024 * 1024;

/** Connections that a guest may have open at once; more are closed, and that is an event. */
export const CONNECTIONS_MAX = 4096;
/** Connections to upstreams that wait for their next request: of one upstream, and altogether. */
export const IDLE_PER_UPSTREAM_MAX = 64;
export const IDLE_MAX = 512;
/** Names for which a listener has made certificates; after as many a new listener takes over (see terminator.ts). */
export const LISTENER_NAMES_MAX = 1024;
/** Streams at once on one HTTP/2 connection; an upstream may ask for fewer. */
export const STREAMS_MAX = 100;
/** Bytes of one such stream that may wait here for their reader. */
export const STREAM_WINDOW = 1024 * 1024;
/** Bytes of a refused request that are read and dropped, so that its client gets to see the answer. */
export const DRAIN_MAX = 1024 * 1024;

/** Milliseconds after which something that does not move is given up. */
export interface Timeouts {
  /** a guest's head, hello or handshake, from its first byte: no slow loris */
  head: number;
  /** a connection of which nobody knows yet whether its client speaks first */
  silence: number;
  /** a guest's connection that waits for its next request */
  keepAlive: number;
  /** a body, either way, of which no byte comes or goes */
  body: number;
  /** connecting to an upstream, with its TLS handshake */
  connect: number;
  /** an upstream's head after the request went out: models think for minutes */
  answer: number;
  /** a connection to an upstream that waits for its next request */
  idle: number;
  /** a relayed connection (WebSocket, TCP, TLS that is let through) on which nothing comes or goes */
  relay: number;
}

export const TIMEOUTS: Readonly<Timeouts> = {
  head: 30_000,
  silence: 2_000,
  keepAlive: 120_000,
  body: 120_000,
  connect: 15_000,
  answer: 600_000,
  idle: 60_000,
  relay: 3_600_000,
};

/** How often open connections are looked at: a timeout comes late by at most this. */
export const SWEEP_MS = 500;
