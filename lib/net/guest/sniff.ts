/** Recognizes a client's protocol by its first bytes. */
import type { BufferedConnection } from "../connection.ts";
import { FIRST_LINE_MAX, type NetTimeouts } from "../limit.ts";
import { decodeLatin1 } from "../message/latin1.ts";

/** `more`: undecided until more bytes are received. */
export type ClientProtocol = "tls" | "http" | "other" | "more";

const CR = 13;
const LF = 10;
/** Most line breaks in front of a request: some servers skip any number of them, so that what follows is a request. */
const BREAKS_MAX = 8;

/** Content types of TLS records. A server may read alerts before the ClientHello. */
const TLS_RECORDS = new Set([20, 21, 22, 23, 24]);
/** A request in the reading of servers that skip or split at other white space, or that speak HTTP/0.9. */
const LENIENT_REQUEST =
  /^\s*[!-~]{1,32}\s.*HTTP\/[0-9]|^\s*(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE)\s+(?:\/|https?:)/i;
/** The beginning of a line that may still become one. */
const REQUEST_BEGINNING = /^\s*(?:[A-Za-z_-]{0,32}|[A-Za-z_-]{1,32}\s[^\r]*\r?)$/;

/**
 * Tells TLS and HTTP/1 from other protocols. HTTP is recognized by a whole first line that a server may read as a
 * request line, so that SMTP, Redis and the like are not taken for it; faults are left to the parsers of TLS and HTTP,
 * which are strict: bytes that a lenient server reads as either must not pass for another protocol.
 */
export function sniff(bytes: Uint8Array): ClientProtocol {
  const start = bytes.findIndex((byte) => byte !== CR && byte !== LF);
  if (start < 0) return bytes.length > BREAKS_MAX ? "http" : "more";
  // No line break is either of these.
  if (TLS_RECORDS.has(bytes[0])) return bytes.length < 2 ? "more" : bytes[1] === 3 ? "tls" : "other";
  // The ClientHello of SSL 2, by which clients may still begin TLS.
  if ((bytes[0] & 0x80) !== 0) {
    if (bytes.length < 5) return "more";
    return bytes[2] === 1 && (bytes[3] === 3 || bytes[3] === 0 && bytes[4] === 2) ? "tls" : "other";
  }
  const end = bytes.indexOf(LF, start);
  const line = decodeLatin1(bytes.subarray(start, end < 0 ? Math.min(bytes.length, FIRST_LINE_MAX) : end));
  if (end >= 0) return LENIENT_REQUEST.test(line) ? "http" : "other";
  return line.length < FIRST_LINE_MAX && REQUEST_BEGINNING.test(line) ? "more" : "other";
}

/** Ports whose protocols begin with the client: a silent client there is slow, not waiting for its server. */
const CLIENT_FIRST = new Set([80, 443]);

/**
 * Recognizes a client's protocol; `undefined` when it is gone, and `late` when the first line of its request is incomplete
 * after the time for a head. A client that waits for its server is not HTTP.
 */
export async function recognize(
  connection: BufferedConnection,
  port: number,
  { silence, head, keepAlive }: NetTimeouts,
): Promise<Exclude<ClientProtocol, "more"> | "late" | undefined> {
  const overdue = Promise.withResolvers<"silent" | "late">();
  /** one deadline for the whole head, however slowly its bytes arrive */
  const begin = () => {
    connection.deadline.set(head);
    connection.onTimeout = () => overdue.resolve("late");
  };
  let hasBegun = connection.count > 0;
  if (hasBegun) begin();
  else if (CLIENT_FIRST.has(port)) connection.deadline.set(keepAlive);
  else {
    connection.deadline.set(silence);
    connection.onTimeout = () => overdue.resolve("silent");
  }
  while (true) {
    const protocol = sniff(connection.unread);
    if (protocol !== "more") {
      connection.onTimeout = undefined;
      return protocol;
    }
    const more = await Promise.race([connection.prefetch().catch(() => false), overdue.promise]);
    if (more === "silent") return "other";
    // Half a TLS record cannot be answered.
    if (more === "late") return PRINTABLE.test(decodeLatin1(connection.unread)) ? "late" : undefined;
    if (!more || !await connection.fill().catch(() => false)) return undefined;
    if (!hasBegun) begin();
    hasBegun = true;
  }
}

const PRINTABLE = /^\s*[!-~]/;
