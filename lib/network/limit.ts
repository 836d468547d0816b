/**
 * Limits of the network path (docs/design/contracts/14-limits.md §14): nothing else bounds the bytes of
 * guests and upstreams.
 */
import { timeLimit } from "../base/time/mod.ts";
import { HELD_MS } from "../policy/ask/mod.ts";

/** Longest head of a request or a response with all its fields, in `bytes`. */
export const HEAD_MAX = 64 * 1024;
/** Most header fields of a head or of trailers. */
export const HEADERS_MAX = 200;
/** Longest method, in characters. */
export const METHOD_MAX = 32;
/** Longest first line by which HTTP is distinguished from other protocols, in `bytes`. */
export const FIRST_LINE_MAX = HEAD_MAX;
/** Longest chunk size line with its extensions, in `bytes`. */
export const CHUNK_LINE_MAX = 1024;
/** Longest trailers, in `bytes`. */
export const TRAILERS_MAX = 16 * 1024;
/** Longest ClientHello, in `bytes`; browsers with post-quantum keys send 2 KB. */
export const HELLO_MAX = 32 * 1024;
/**
 * Most `bytes` of a relayed client that are searched for a ClientHello anywhere; later,
 * the beginning of each turn is.
 */
export const HELLO_SEARCH_MAX = 64 * 1024;
/** Most interim responses (1xx) before the final one. */
export const INTERIM_MAX = 16;

/**
 * Most `bytes` of a body in its event (docs/design/contracts/05-policy.md §5), with and without its content
 * encoding.
 */
export const CAPTURE_MAX = 64 * 1024;
/** Most content encodings of one body; a body with more is not decoded. */
export const ENCODINGS_MAX = 4;
/** Most zstd frames of one body. */
export const FRAMES_MAX = 64;
/**
 * Longest response read whole before the guest gets its first byte, in `bytes`:
 * rules can still block its text.
 */
export const WHOLE_RESPONSE_MAX = 64 * 1024;
/**
 * Longest request body buffered before the decision, in `bytes`. A buffered body goes out with its exact
 * length after rewrites and substitutions; a longer one streams, and a change of its length ends it.
 */
export const BUFFERED_BODY_MAX = 8 * 1024 * 1024;
/** Most `bytes` buffered for all requests of a VM; beyond it, requests stream. */
export const BUFFERED_TOTAL_MAX = 128 * 1024 * 1024;

/** Most idle connections to one upstream, and to all upstreams. */
export const IDLE_PER_UPSTREAM_MAX = 64;
export const IDLE_MAX = 512;
/** Most names of one TLS listener; then a new listener takes over (guest/terminator.ts). */
export const LISTENER_NAMES_MAX = 1024;
/** Most concurrent streams of one HTTP/2 connection; an upstream may allow fewer. */
export const STREAMS_MAX = 100;
/** Most unread `bytes` of one HTTP/2 stream of an upstream. */
export const STREAM_WINDOW = 1024 * 1024;
/** Most unread `bytes` of one HTTP/2 stream of a guest, and of all streams of its connection. */
export const GUEST_STREAM_WINDOW = 256 * 1024;
export const GUEST_CONNECTION_WINDOW = 1024 * 1024;
/** Most connections of a VM that speak HTTP/2, and most exchanges on all of them. */
export const HTTP2_CONNECTIONS_MAX = 256;
export const HTTP2_EXCHANGES_MAX = 4096;
/** Most streams that a connection of a guest resets at once, or is refused, and then in a second. */
export const HTTP2_RESETS = 1000;
export const HTTP2_RESETS_RATE = 33;
/**
 * Most frames of a guest at once that ask for nothing (PING, SETTINGS, PRIORITY,
 * empty DATA), and then in a second.
 */
export const HTTP2_IDLE_FRAMES = 1000;
export const HTTP2_IDLE_FRAMES_RATE = 100;
/**
 * Most `bytes` of a refused request that are read and dropped (docs/design/contracts/14-limits.md
 * §14): many clients send a whole body before they read, and report a broken pipe in place of a
 * refusal that they have not read.
 */
export const REFUSED_BODY_MAX = 64 * 1024 * 1024;
/** Most `bytes` after the end of a WebSocket that are read and dropped. */
export const DRAIN_MAX = 1024 * 1024;

/** Most `bytes` of a model's answer that are read for its counts after its client is gone (§4, "Budgets"). */
export const LINGER_BYTES = 16 * 1024 * 1024;

/** Longest trailers of gRPC-Web that are read, in `bytes`. */
export const GRPC_TRAILERS_MAX = 16 * 1024;
/** Longest payload of a WebSocket's control frame, in `bytes` (RFC 6455 §5.5). */
export const CONTROL_PAYLOAD_MAX = 125;
/**
 * Longest frame of a WebSocket that is held whole and keeps its boundaries, in
 * `bytes`; longer ones become several.
 */
export const FRAME_WHOLE_MAX = 64 * 1024;
/** Longest compressed message of a WebSocket, in `bytes` after inflating; plain ones have no limit. */
export const SOCKET_INFLATED_MAX = 64 * 1024 * 1024;
/**
 * Memory of the windows of a WebSocket that is compressed, in `bytes`: counted as buffered, up to a half of
 * {@linkcode BUFFERED_TOTAL_MAX}, and without room none is.
 */
export const SOCKET_DEFLATE_BYTES = 512 * 1024;
/** Most messages of a WebSocket in its event; the rest is counted. */
export const SOCKET_MESSAGES_MAX = 256;
/** Most `bytes` of one message in its event. */
export const SOCKET_MESSAGE_MAX = 8 * 1024;
/**
 * Most `bytes` of all messages of a WebSocket in its event: counted as buffered as long as it is open, as
 * {@linkcode SOCKET_DEFLATE_BYTES} are.
 */
export const SOCKET_RECORD_BYTES = 64 * 1024;
/** Most pings of one side of a WebSocket whose answers are awaited. */
export const PINGS_MAX = 16;

/** Most model calls of one WebSocket that wait for their responses. */
export const SOCKET_CALLS_MAX = 64;

/** Timeouts in `ms`. */
export interface NetTimeouts {
  /** a guest's head or ClientHello, from its first byte: no slow loris */
  head: number;
  /**
   * a guest's TLS handshake after its ClientHello: one thread may be in hundreds of them, one after another
   */
  handshake: number;
  /** first byte of a client, before it is taken for one whose server speaks first */
  silence: number;
  /** first or next request on a guest's connection */
  keepAlive: number;
  /** next bytes of a body, in either direction */
  body: number;
  /** a body or message that is received and held, once others need its room */
  buffer: number;
  /** connecting to an upstream, with the TLS handshake */
  connect: number;
  /** head of a response after its request was sent: models think for minutes */
  response: number;
  /**
   * `100 Continue` of an upstream, before a body that was announced goes out
   * without it: as long as clients wait
   */
  proceed: number;
  /** answer to a guest whose request waits for a person, who is still asked: less than clients wait */
  held: number;
  /** the same where the server speaks first: MySQL drivers wait 10 s */
  greeting: number;
  /** end of a model's answer whose client is gone, for its counts: then it counts as much as it could */
  linger: number;
  /** next request on an idle connection to an upstream */
  idle: number;
  /** next bytes of a relayed connection (WebSocket, TCP, uninspected TLS) */
  relay: number;
  /** closing handshake of a WebSocket, and the end of both connections */
  close: number;
}

export const TIMEOUTS: Readonly<NetTimeouts> = {
  head: timeLimit(30_000),
  handshake: timeLimit(120_000),
  silence: 2_000,
  keepAlive: 120_000,
  body: timeLimit(120_000),
  buffer: timeLimit(5_000),
  connect: timeLimit(15_000),
  response: timeLimit(600_000),
  proceed: timeLimit(1_000),
  held: HELD_MS,
  greeting: 8_000,
  linger: timeLimit(120_000),
  idle: 60_000,
  relay: 3_600_000,
  close: timeLimit(5_000),
};

/** Interval of the deadline check in `ms`: a timeout comes late by at most this. */
export const SWEEP_MS = 500;
