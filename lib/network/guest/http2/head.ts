/** Checks the head and trailers of a guest's HTTP/2 request, before they may be translated to HTTP/1.1. */
import { MessageFault } from "../../fault.ts";
import { checkFields, checkRequestLine, type RequestHead } from "../../message/head.ts";
import type { Header } from "../../message/header.ts";

/** Pseudo-header fields of a request (RFC 9113 §8.3.1, RFC 8441 §4). */
const PSEUDO: ReadonlySet<string> = new Set([":method", ":scheme", ":authority", ":path", ":protocol"]);
/** Fields of one HTTP/1.1 connection, which an HTTP/2 message cannot have (RFC 9113 §8.2.2). */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/** The head of a stream. */
export interface StreamHead {
  head: RequestHead;
  /** its `content-length` */
  length?: number;
  /** it asks for a WebSocket on its stream */
  isSocket?: true;
}

/**
 * Reads a request's head as strictly as one of HTTP/1.1, to which it may be translated: no value can become
 * two fields, and no length or host can be read in two ways.
 *
 * @param scheme that of the connection
 * @throws {MessageFault}
 */
export function readStreamHead(fields: readonly Header[], scheme: string): StreamHead {
  checkFields(fields);
  const pseudo = readPseudo(fields);
  const method = pseudo.get(":method");
  const path = pseudo.get(":path");
  if (method === undefined) throw new MessageFault("a request without :method");
  const isSocket = method === "CONNECT" && pseudo.get(":protocol") === "websocket";
  // A tunnel through an upstream would hide its requests.
  if (method.toUpperCase() === "CONNECT" && !isSocket) {
    throw new MessageFault("a CONNECT request: connect to the host itself");
  }
  if (pseudo.has(":protocol") && !isSocket) throw new MessageFault("a :protocol that was not offered");
  if (path === undefined) throw new MessageFault("a request without :path");
  if (pseudo.get(":scheme") !== scheme) throw new MessageFault("another :scheme than that of the connection");
  const line = checkRequestLine(isSocket ? "GET" : method, path);
  if (!path.startsWith("/") && !(path === "*" && line.method === "OPTIONS")) {
    throw new MessageFault("a :path that is not a path");
  }
  const regular = fields.slice(pseudo.size);
  const length = readLength(regular);
  return {
    head: {
      ...line,
      old: false,
      headers: [
        ["host", authorityOf(pseudo, regular)],
        ...isSocket ? handshakeOf(regular) : [],
        ...joinCookies(regular),
      ],
    },
    ...(isSocket && { isSocket }),
    ...(length !== undefined && { length }),
  };
}

/**
 * Fields of the handshake that HTTP/1.1 has for a WebSocket, and HTTP/2 does not (RFC 8441 §5).
 * @throws {MessageFault}
 */
function handshakeOf(regular: readonly Header[]): Header[] {
  if (regular.some(([name]) => name === "sec-websocket-key")) {
    throw new MessageFault("a Sec-WebSocket-Key in HTTP/2");
  }
  const key = crypto.getRandomValues(new Uint8Array(16)).toBase64();
  return [["connection", "upgrade"], ["upgrade", "websocket"], ["sec-websocket-key", key]];
}

/**
 * Length of fields in `bytes`, as HTTP/1.1 writes them: in HTTP/2 one byte may stand for a field of before.
 */
export function sizeOf(fields: readonly Header[]): number {
  return fields.reduce((sum, [name, value]) => sum + name.length + value.length + ": \r\n".length, 0);
}

/** Checks the fields behind a body. @throws {MessageFault} */
export function checkTrailers(fields: readonly Header[]): void {
  checkFields(fields);
  for (const [name, value] of fields) {
    if (name[0] === ":") throw new MessageFault("a pseudo-header field in the trailers");
    checkRegular(name, value);
  }
}

/** The pseudo-header fields, which are first. */
function readPseudo(fields: readonly Header[]): Map<string, string> {
  const pseudo = new Map<string, string>();
  let isRegular = false;
  for (const [name, value] of fields) {
    if (name[0] !== ":") {
      isRegular = true;
      checkRegular(name, value);
      continue;
    }
    if (isRegular) throw new MessageFault("a pseudo-header field behind others");
    if (!PSEUDO.has(name)) throw new MessageFault("an unknown pseudo-header field");
    if (pseudo.has(name)) throw new MessageFault(`more than one ${name}`);
    if (/^[ \t]|[ \t]$/.test(value)) throw new MessageFault("white space around a header value");
    pseudo.set(name, value);
  }
  return pseudo;
}

function checkRegular(name: string, value: string): void {
  if (CONNECTION_FIELDS.has(name)) throw new MessageFault(`the field ${name}, which HTTP/2 does not have`);
  if (name === "te" && value.toLowerCase() !== "trailers") {
    throw new MessageFault("a field te of more than trailers");
  }
  if (/^[ \t]|[ \t]$/.test(value)) throw new MessageFault("white space around a header value");
}

/**
 * Host of a request: `:authority`, or `host` of a client that translates HTTP/1.1.
 * @throws {MessageFault} they differ
 */
function authorityOf(pseudo: ReadonlyMap<string, string>, regular: readonly Header[]): string {
  const hosts = regular.filter(([name]) => name === "host");
  if (hosts.length > 1) throw new MessageFault("more than one Host header");
  const authority = pseudo.get(":authority") ?? hosts[0]?.[1];
  if (authority === undefined) throw new MessageFault("a request without :authority");
  if (hosts.length === 1 && hosts[0][1].toLowerCase() !== authority.toLowerCase()) {
    throw new MessageFault("another Host header than :authority");
  }
  return authority;
}

function readLength(regular: readonly Header[]): number | undefined {
  const lengths = regular.filter(([name]) => name === "content-length");
  if (lengths.length === 0) return undefined;
  if (lengths.length > 1) throw new MessageFault("more than one content-length header");
  if (!/^[0-9]{1,15}$/.test(lengths[0][1])) throw new MessageFault("content-length is not a number");
  return Number(lengths[0][1]);
}

/** One field of all cookies: HTTP/2 may split it, and HTTP/1.1 may not (RFC 9113 §8.2.3). */
function joinCookies(regular: readonly Header[]): Header[] {
  const cookies = regular.filter(([name]) => name === "cookie");
  const others = regular.filter(([name]) => name !== "host");
  if (cookies.length < 2) return others;
  const first = cookies[0];
  const joined: Header = ["cookie", cookies.map(([, value]) => value).join("; ")];
  return others.flatMap((field) => field[0] !== "cookie" ? [field] : field === first ? [joined] : []);
}
