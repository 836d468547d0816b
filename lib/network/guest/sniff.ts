/** Recognizes a client's protocol by its first bytes. */
import type { BufferedConnection } from "../connection.ts";
import { FIRST_LINE_MAX, HELLO_MAX, type NetTimeouts } from "../limit.ts";
import { decodeLatin1 } from "../message/bytes.ts";
import { canonicalHost } from "../../base/address/mod.ts";
import { MessageFault } from "../fault.ts";

/** `more`: undecided until more bytes are received. */
export type ClientProtocol = "tls" | "http" | "other" | "more";

/**
 * Most line breaks in front of a request: some servers skip any number of them, so
 * that what follows is a request.
 */
const BREAKS_MAX = 8;

/** Content types of TLS records. A server may read alerts before the ClientHello. */
const TLS_RECORDS = new Set([20, 21, 22, 23, 24]);

/** Characters between words: ASCII's, and the additions of Python and C in the most lenient servers. */
const SPACE = "\\t-\\r\\x20";
const BLANK = "\\0-\\x20\\x85\\xa0";
/** A word, and behind it a path, a query or a URL; GET and CONNECT, and behind them any word. */
const targetedBy = (blank: string) =>
  `^[${blank}]*(?:[^${blank}]+[${blank}]+(?:[/?#]|[a-z][a-z0-9+.-]*://)|(?:GET|CONNECT)[${blank}]+[^${blank}])`;
/**
 * A first line that one of the servers of tests/http takes for a request: one that names HTTP, and one of a
 * method and a target (HTTP/0.9). A load balancer's line names the client of the request behind it.
 */
const REQUEST = new RegExp(["HTTP/", targetedBy(BLANK), targetedBy(SPACE), "^PROXY "].join("|"), "i");
const NAMED = /HTTP\//i;
/** A first line of a method with any word, which is a request once an empty line follows. */
const COMMAND = /^[^\x20a-z]+\x20[^\x20]+\s*$/;
/** A later line that is a request, for servers that skip or answer the lines before it. */
const LATER_REQUEST = new RegExp(`[^${BLANK}][${BLANK}]+HTTP/[0-9][0-9.]*[${BLANK}]*$`, "i");
/**
 * The beginning of a first line that may become a request, for some servers by
 * the end of the connection alone.
 */
const REQUEST_BEGINNING =
  // deno-lint-ignore no-control-regex
  /^[\t-\r\x1c-\x20\x85\xa0]*(?:[A-Za-z_-]{0,32}|[A-Za-z_-]{1,32}[\t-\r\x1c-\x20\x85\xa0].*)$/s;
/** First bytes of version 2 of the load balancers' PROXY protocol. */
const PROXY_2 = "\r\n\r\n\0\r\nQUIT\n";

/**
 * Finds a request in the lines of a client, as the most lenient servers read them;
 * its bytes arrive in any pieces.
 */
export class RequestFinder {
  /** the last line so far; of a long one its beginning and its end */
  #line = "";
  #isFirst = true;
  #isCommand = false;
  /** no line has ended in CRLF: a server that knows no other line break reads one line */
  #isOneLine = true;
  #found = false;
  /**
   * the server has spoken first, which no HTTP server does: nothing but a
   * line that names HTTP is a request
   */
  greeted = false;

  /** @param text more of the client's bytes, as Latin-1 @returns true when they have a request */
  add(text: string): boolean {
    if (this.#found) return true;
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      if (this.#end(this.#line + text.slice(from, end))) return this.#found = true;
      this.#line = "";
      from = end + 1;
    }
    this.#line += text.slice(from);
    if (this.#line.length > 2 * FIRST_LINE_MAX) {
      this.#line = this.#line.slice(0, FIRST_LINE_MAX) + this.#line.slice(-FIRST_LINE_MAX);
    }
    if (!this.#isFirst) return false;
    // Some servers take the end of the connection for that of the line.
    return this.#found = NAMED.test(this.#line) || this.#line.length >= FIRST_LINE_MAX && this.isOpen;
  }

  /** True while the first line is incomplete and may become a request. */
  get isOpen(): boolean {
    return this.#isFirst && !this.greeted && REQUEST_BEGINNING.test(this.#line);
  }

  /** @param line a whole one @returns true when it is a request, or completes one */
  #end(line: string): boolean {
    const isContinued = !this.#isFirst && this.#isOneLine;
    this.#isOneLine &&= !line.endsWith("\r");
    if (this.#isFirst) {
      // Servers skip lines without a word.
      if (!/[^\0-\x20\x85\xa0]/.test(line)) return false;
      this.#isFirst = false;
      this.#isCommand = COMMAND.test(line) && !this.greeted;
      return (this.greeted ? NAMED : REQUEST).test(line);
    }
    return this.#isCommand && /^\r?$/.test(line) || (isContinued ? NAMED : LATER_REQUEST).test(line);
  }
}

/**
 * Distinguishes TLS and HTTP/1 from other protocols. Bytes count as HTTP if the most lenient server of
 * tests/http takes them for a request, so that SMTP, Redis and the like do not; faults are left to the
 * parsers of TLS and HTTP, which are strict: bytes that a lenient server reads as either must not pass for
 * another protocol. Bytes that are `other` so far may contain a request later: `RelayWatch` reads on.
 */
export function sniff(bytes: Uint8Array): ClientProtocol {
  if (TLS_RECORDS.has(bytes[0])) {
    if (bytes.length < 2) return "more";
    if (bytes[1] === 3) return "tls";
  }
  // The ClientHello of SSL 2, by which clients may still begin TLS.
  const isSsl2 = (bytes[0] & 0x80) !== 0;
  if (isSsl2 && bytes.length >= 5) {
    if (bytes[2] === 1 && (bytes[3] === 3 || bytes[3] === 0 && bytes[4] === 2)) return "tls";
  }
  const text = decodeLatin1(bytes);
  if (/^[\r\n]*$/.test(text)) return bytes.length > BREAKS_MAX ? "http" : "more";
  if (PROXY_2.startsWith(text)) return "more";
  const finder = new RequestFinder();
  if (text.startsWith(PROXY_2) || finder.add(text)) return "http";
  return finder.isOpen || isSsl2 && bytes.length < 5 ? "more" : "other";
}

/** Ports whose protocols begin with the client: a silent client there is slow, not waiting for its server. */
const CLIENT_FIRST = new Set([80, 443]);

/**
 * Recognizes a client's protocol; `undefined` when it is gone, and `late` when the first line of its request
 * is incomplete after the time for a head. A client that waits for its server is not HTTP.
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

// Server name of a TLS client, parsed from its ClientHello (RFC 8446 §4.1.2, RFC 6066 §3).

/** Parsed part of a ClientHello. */
export interface ClientHello {
  /** server name, canonical; absent for clients that connect to an address */
  name?: string;
}

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
/** Longest fragment of a record in `bytes` (RFC 8446 §5.1). */
const RECORD_MAX = 1 << 14;

/**
 * Parses the ClientHello at the beginning of `bytes`, in any number of records;
 * `undefined` while it is incomplete.
 *
 * @throws {MessageFault} for another message, one longer than
 * {@linkcode HELLO_MAX}, and an ambiguous server name
 */
export function parseHello(bytes: Uint8Array): ClientHello | undefined {
  const joined = joinHandshake(bytes);
  if (!joined) return undefined;
  try {
    return parseBody(new Cursor(joined.message));
  } catch (error) {
    if (error instanceof RangeError) throw new MessageFault("a truncated ClientHello");
    throw error;
  }
}

/**
 * Length of the records at the beginning of `bytes` that have the ClientHello.
 * @throws {MessageFault} as {@linkcode parseHello}
 */
export function helloLength(bytes: Uint8Array): number | undefined {
  return joinHandshake(bytes)?.end;
}

/**
 * Joins the first handshake message from its records, without the message's head.
 * @returns `end` is that of the records
 */
function joinHandshake(bytes: Uint8Array): { message: Uint8Array; end: number } | undefined {
  let message = new Uint8Array();
  for (let at = 0; at + 5 <= bytes.length;) {
    const fragment = bytes[at + 3] << 8 | bytes[at + 4];
    if (bytes[at] !== HANDSHAKE || bytes[at + 1] !== 3) {
      throw new MessageFault("the first TLS record is not a handshake");
    }
    if (fragment === 0 || fragment > RECORD_MAX) throw new MessageFault("an invalid TLS record length");
    if (at + 5 + fragment > bytes.length) break;
    const joined = new Uint8Array(message.length + fragment);
    joined.set(message);
    joined.set(bytes.subarray(at + 5, at + 5 + fragment), message.length);
    message = joined;
    at += 5 + fragment;
    if (message[0] !== CLIENT_HELLO) {
      throw new MessageFault("the first handshake message is not a ClientHello");
    }
    if (message.length < 4) continue;
    const length = 4 + (message[1] << 16 | message[2] << 8 | message[3]);
    if (length > HELLO_MAX) throw tooLongFault();
    if (message.length >= length) return { message: message.subarray(4, length), end: at };
  }
  if (bytes.length > HELLO_MAX) throw tooLongFault();
  return undefined;
}

function tooLongFault(): MessageFault {
  return new MessageFault(`the ClientHello is longer than ${HELLO_MAX} bytes`);
}

function parseBody(hello: Cursor): ClientHello {
  // Version, random; session id, cipher suites, compression methods.
  hello.take(2 + 32);
  hello.take(hello.uint8());
  hello.take(hello.uint16());
  hello.take(hello.uint8());
  if (hello.remaining === 0) return {};
  const extensions = new Cursor(hello.take(hello.uint16()));
  let name: string | undefined;
  while (extensions.remaining > 0) {
    const type = extensions.uint16();
    const data = new Cursor(extensions.take(extensions.uint16()));
    if (type !== SERVER_NAME) continue;
    if (name !== undefined) throw new MessageFault("more than one server name in the ClientHello");
    name = readServerName(data);
  }
  return name === undefined ? {} : { name };
}

function readServerName(data: Cursor): string {
  const list = new Cursor(data.take(data.uint16()));
  const type = list.uint8();
  const bytes = list.take(list.uint16());
  if (type !== 0 || list.remaining > 0 || data.remaining > 0) {
    throw new MessageFault("an unknown form of server name in the ClientHello");
  }
  const text = String.fromCharCode(...bytes).toLowerCase().replace(/\.$/, "");
  // An address in another spelling would get a certificate for a name that no client asked for.
  if (canonicalHost(text) !== text) throw new MessageFault("an invalid server name in the ClientHello");
  return text;
}

/** Reads numbers and pieces. @throws {RangeError} past the end */
class Cursor {
  #at = 0;

  constructor(readonly bytes: Uint8Array) {}

  get remaining(): number {
    return this.bytes.length - this.#at;
  }

  take(count: number): Uint8Array {
    if (count > this.remaining) throw new RangeError();
    return this.bytes.subarray(this.#at, this.#at += count);
  }

  uint8(): number {
    return this.take(1)[0];
  }

  uint16(): number {
    const [high, low] = this.take(2);
    return high << 8 | low;
  }
}
