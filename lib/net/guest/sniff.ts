/** Recognizes a client's protocol by its first bytes. */
import type { BufferedConnection } from "../connection.ts";
import { FIRST_LINE_MAX, type NetTimeouts } from "../limit.ts";
import { decodeLatin1 } from "../message/latin1.ts";

/** `more`: undecided until more bytes are received. */
export type ClientProtocol = "tls" | "http" | "other" | "more";

const TLS_HANDSHAKE = 22;
const CR = 13;
const LF = 10;

/**
 * Tells TLS and HTTP/1 from other protocols. HTTP is recognized by a whole first line that ends as a request line does,
 * so that SMTP, Redis and the like are not taken for it; later faults are left to the HTTP parser.
 */
export function sniff(bytes: Uint8Array): ClientProtocol {
  const start = bytes.findIndex((byte) => byte !== CR && byte !== LF);
  if (start < 0) return bytes.length > 8 ? "other" : "more";
  if (bytes[start] === TLS_HANDSHAKE) {
    if (start > 0 || bytes.length > 1 && bytes[1] !== 3) return "other";
    return bytes.length > 1 ? "tls" : "more";
  }
  const end = bytes.indexOf(LF, start);
  const line = decodeLatin1(bytes.subarray(start, end < 0 ? Math.min(bytes.length, FIRST_LINE_MAX) : end));
  if (end < 0) {
    // A line that begins as a request does may still become one.
    return line.length < FIRST_LINE_MAX && /^[A-Za-z-]{1,32}( [^\r]*\r?)?$/.test(line) ? "more" : "other";
  }
  return /^[!-~]{1,32} .*HTTP\/[0-9]/.test(line) ? "http" : "other";
}

/** Ports whose protocols begin with the client: a silent client there is slow, not waiting for its server. */
const CLIENT_FIRST = new Set([80, 443]);

/** Recognizes a client's protocol; `undefined` when it is gone. A client that waits for its server is not HTTP. */
export async function recognize(
  connection: BufferedConnection,
  port: number,
  { silence, head, keepAlive }: NetTimeouts,
): Promise<Exclude<ClientProtocol, "more"> | undefined> {
  const silent = Promise.withResolvers<"silent">();
  if (connection.count === 0 && !CLIENT_FIRST.has(port)) {
    connection.deadline.set(silence);
    connection.onTimeout = () => silent.resolve("silent");
  } else connection.deadline.set(connection.count === 0 ? keepAlive : head);
  while (true) {
    const protocol = sniff(connection.unread);
    if (protocol !== "more") {
      connection.onTimeout = undefined;
      return protocol;
    }
    const more = await Promise.race([connection.prefetch().catch(() => false), silent.promise]);
    if (more === "silent") return "other";
    if (!more || !await connection.fill().catch(() => false)) return undefined;
    connection.onTimeout = undefined;
    connection.deadline.set(head);
  }
}
