/** What a client speaks, told by its first bytes. */
import { FIRST_LINE_MAX } from "../limit.ts";
import { latin1 } from "../message/latin1.ts";

/** `more`: it cannot be told yet. */
export type Speech = "tls" | "http" | "other" | "more";

const TLS_HANDSHAKE = 22;
const CR = 13;
const LF = 10;

/**
 * Tells TLS from HTTP/1 from all else. A line that begins like a request is HTTP once it ends like one, so that SMTP,
 * Redis and their like are not taken for it; HTTP that is badly written after that is refused by who reads it.
 */
export function sniff(bytes: Uint8Array): Speech {
  const start = bytes.findIndex((byte) => byte !== CR && byte !== LF);
  if (start < 0) return bytes.length > 8 ? "other" : "more";
  if (bytes[start] === TLS_HANDSHAKE) {
    if (start > 0 || bytes.length > 1 && bytes[1] !== 3) return "other";
    return bytes.length > 1 ? "tls" : "more";
  }
  const end = bytes.indexOf(LF, start);
  const line = latin1(bytes.subarray(start, end < 0 ? Math.min(bytes.length, FIRST_LINE_MAX) : end));
  if (end < 0) {
    // The rest of the line may make it HTTP, as long as it begins as a request does.
    return line.length < FIRST_LINE_MAX && /^[A-Za-z-]{1,32}( [^\r]*\r?)?$/.test(line) ? "more" : "other";
  }
  return /^[!-~]{1,32} .*HTTP\/[0-9]/.test(line) ? "http" : "other";
}
