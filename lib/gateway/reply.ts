/** An HTTP/1.1 answer read from a {@linkcode Connection}. */
import { type Connection, ConnectionLost, READ_SIZE } from "./connection.ts";

/** How the end of a body is found (RFC 9112 §6.3): a length in bytes, chunks, or the connection's end. */
export type Framing = number | "chunked" | "close";

/** Status line and headers. Header names are lower-case. */
export interface ReplyHead {
  status: number;
  headers: [string, string][];
  framing: Framing;
  /** whether another request may follow on the connection */
  keepAlive: boolean;
}

const latin1 = new TextDecoder("latin1");

/**
 * Reads a head; interim answers (1xx) are skipped.
 *
 * @throws ConnectionLost when the service closed before it began to answer
 */
export async function readHead(connection: Connection, method: string): Promise<ReplyHead> {
  while (true) {
    const head = parseHead(await headText(connection), method);
    if (head.status >= 200 || head.status === 101) return head;
  }
}

async function headText(connection: Connection): Promise<string> {
  for (let seen = 0;;) {
    const { waiting } = connection;
    const end = endOfHead(waiting, Math.max(0, seen - 3));
    if (end >= 0) {
      const text = latin1.decode(waiting.subarray(0, end));
      connection.skip(end + 4);
      return text;
    }
    seen = waiting.length;
    if (seen === READ_SIZE) throw new TypeError("the head of an answer is too long");
    if (await connection.fill()) continue;
    if (seen === 0) throw new ConnectionLost(false);
    throw new TypeError("the connection ended within a head");
  }
}

function endOfHead(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(13, from); at >= 0 && at + 3 < bytes.length; at = bytes.indexOf(13, at + 1)) {
    if (bytes[at + 1] === 10 && bytes[at + 2] === 13 && bytes[at + 3] === 10) return at;
  }
  return -1;
}

/** @throws TypeError when `text` is no head of HTTP/1.1 */
export function parseHead(text: string, method: string): ReplyHead {
  const [first, ...lines] = text.split("\r\n");
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/.exec(first)?.[1];
  if (status === undefined) throw new TypeError("not an HTTP/1.1 answer");
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(":");
    if (colon < 1) throw new TypeError("a header without a name");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  const value = (name: string) => headers.find(([key]) => key === name)?.[1];
  const code = Number(status);
  return {
    status: code,
    headers,
    framing: framingOf(code, method, value("transfer-encoding"), value("content-length")),
    keepAlive: first.startsWith("HTTP/1.1") && value("connection")?.toLowerCase() !== "close",
  };
}

function framingOf(status: number, method: string, coding?: string, length?: string): Framing {
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return 0;
  if (coding !== undefined) {
    if (coding.toLowerCase() !== "chunked") throw new TypeError("a transfer coding that is not chunked");
    return "chunked";
  }
  if (length === undefined) return "close";
  if (!/^\d{1,15}$/.test(length)) throw new TypeError("a content length that is no number");
  return Number(length);
}

/** Gives a body's bytes piece by piece. */
export class BodyReader {
  readonly #connection: Connection;
  readonly #framing: Framing;
  /** bytes left of the body, or of the current chunk */
  #left: number;
  #within = false;

  constructor(connection: Connection, framing: Framing) {
    this.#connection = connection;
    this.#framing = framing;
    this.#left = typeof framing === "number" ? framing : framing === "close" ? Infinity : 0;
  }

  /**
   * The next bytes; null at the end.
   *
   * @throws TypeError when the body is cut short or its chunks are malformed
   */
  async next(): Promise<Uint8Array<ArrayBuffer> | null> {
    if (this.#framing === "chunked" && this.#left === 0 && !(await this.#nextChunk())) return null;
    if (this.#left === 0) return null;
    if (this.#connection.waiting.length === 0 && !(await this.#connection.fill())) {
      if (this.#framing === "close") return null;
      throw new TypeError("the connection ended within a body");
    }
    const bytes = this.#connection.take(this.#left);
    this.#left -= bytes.length;
    return bytes;
  }

  /** All of a body whose length is known and small, in one array. */
  async all(length: number): Promise<Uint8Array<ArrayBuffer>> {
    while (this.#connection.waiting.length < length) {
      if (!(await this.#connection.fill())) throw new TypeError("the connection ended within a body");
    }
    return this.#connection.take(length);
  }

  async #nextChunk(): Promise<boolean> {
    if (this.#within && (await this.#line()) !== "") throw new TypeError("a chunk is longer than it said");
    const size = /^([0-9A-Fa-f]{1,8})(?:[ \t]*;.*)?$/.exec(await this.#line())?.[1];
    if (size === undefined) throw new TypeError("a chunk without a size");
    this.#within = true;
    this.#left = parseInt(size, 16);
    if (this.#left > 0) return true;
    while ((await this.#line()) !== "") { /* trailers are not forwarded */ }
    return false;
  }

  async #line(): Promise<string> {
    while (true) {
      const { waiting } = this.#connection;
      const end = waiting.indexOf(10);
      if (end > 0 && waiting[end - 1] === 13) {
        const line = latin1.decode(waiting.subarray(0, end - 1));
        this.#connection.skip(end + 1);
        return line;
      }
      if (end >= 0 || waiting.length === READ_SIZE) throw new TypeError("a line without an end");
      if (!(await this.#connection.fill())) throw new TypeError("the connection ended within a body");
    }
  }
}
