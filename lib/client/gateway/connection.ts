/** Connections to the service, and the HTTP/1.1 responses read from them. */
const READ_SIZE = 64 * 1024;

/**
 * One HTTP/1.1 connection to the service, reused for several requests. A read is pending while it is parked,
 * which detects a closed service at once and has already started the first read of the next response.
 */
export class ServiceConnection {
  readonly #conn: Deno.UnixConn;
  readonly #buffer = new Uint8Array(READ_SIZE);
  #start = 0;
  #end = 0;
  #reading?: Promise<number | null>;
  #parked = false;
  closed = false;

  constructor(conn: Deno.UnixConn) {
    this.#conn = conn;
  }

  /** Bytes that were read but not yet taken; overwritten by the next {@linkcode fill}. */
  get waiting(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  /** Drops the first `count` waiting bytes. */
  skip(count: number): void {
    this.#start += count;
    if (this.#start === this.#end) this.#start = this.#end = 0;
  }

  /** Takes up to `most` waiting bytes, as a copy. */
  take(most: number): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffer.slice(this.#start, Math.min(this.#end, this.#start + most));
    this.skip(bytes.length);
    return bytes;
  }

  /**
   * Waits for more bytes.
   *
   * @returns false when the service has closed the connection; true also when the buffer is full
   */
  async fill(): Promise<boolean> {
    if (this.#start > 0) {
      this.#buffer.copyWithin(0, this.#start, this.#end);
      this.#end -= this.#start;
      this.#start = 0;
    }
    if (this.#end === READ_SIZE) return true;
    const reading = this.#reading ?? this.#conn.read(this.#buffer.subarray(this.#end));
    this.#reading = undefined;
    const count = await reading;
    if (count === null) return false;
    this.#end += count;
    return true;
  }

  /** Writes all of `bytes`. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.#conn.write(at === 0 ? bytes : bytes.subarray(at));
  }

  /**
   * Keeps the connection for its next request; calls `onUnusable` when it closes
   * or receives bytes before that.
   */
  park(onUnusable: () => void): void {
    this.#parked = true;
    this.#reading = this.#conn.read(this.#buffer);
    const finish = () => {
      if (this.#parked) onUnusable();
    };
    this.#reading.then(finish, finish);
  }

  unpark(): void {
    this.#parked = false;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#parked = false;
    this.#conn.close();
  }
}

/** Framing of a body (RFC 9112 §6.3): a length in `bytes`, chunks, or the end of the connection. */
type Framing = number | "chunked" | "close";

/** Status line and headers. Header names are lower-case. */
export interface ReplyHead {
  status: number;
  headers: [string, string][];
  framing: Framing;
  /** another request may follow on the connection */
  keepAlive: boolean;
}

/** The service closed a connection before it began to respond. */
export class ConnectionLost extends Error {
  /** @param unsent true when the request certainly did not reach the service */
  constructor(readonly unsent: boolean, cause?: unknown) {
    super("connection lost", { cause });
  }
}

const latin1 = new TextDecoder("latin1");

/**
 * Reads a head; skips interim responses (1xx).
 *
 * @throws ConnectionLost when the service closed the connection before it began to respond
 */
export async function readHead(connection: ServiceConnection, method: string): Promise<ReplyHead> {
  while (true) {
    const head = parseHead(await readHeadText(connection), method);
    if (head.status >= 200 || head.status === 101) return head;
  }
}

async function readHeadText(connection: ServiceConnection): Promise<string> {
  for (let seen = 0;;) {
    const { waiting } = connection;
    const end = endOfHead(waiting, Math.max(0, seen - 3));
    if (end >= 0) {
      const text = latin1.decode(waiting.subarray(0, end));
      connection.skip(end + 4);
      return text;
    }
    seen = waiting.length;
    if (seen === READ_SIZE) throw new TypeError("the head of the response is too long");
    if (await connection.fill()) continue;
    if (seen === 0) throw new ConnectionLost(false);
    throw new TypeError("the connection ended inside a head");
  }
}

function endOfHead(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(13, from); at >= 0; at = bytes.indexOf(13, at + 1)) {
    if (bytes[at + 1] === 10 && bytes[at + 2] === 13 && bytes[at + 3] === 10) return at;
  }
  return -1;
}

/** @throws TypeError when `text` is not an HTTP/1.1 head */
function parseHead(text: string, method: string): ReplyHead {
  const [first, ...lines] = text.split("\r\n");
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/.exec(first)?.[1];
  if (status === undefined) throw new TypeError("not an HTTP/1.1 response");
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
    if (coding.toLowerCase() !== "chunked") throw new TypeError("unsupported transfer coding");
    return "chunked";
  }
  if (length === undefined) return "close";
  if (!/^\d{1,15}$/.test(length)) throw new TypeError("invalid content length");
  return Number(length);
}

/**
 * Reads a body in pieces.
 *
 * Kept apart from `WireBody` of lib/network, which reads chunks too. That one is for untrusted peers: it sets
 * a deadline before each wait, bounds size lines and trailers, keeps the trailers, and yields views whose
 * next read overwrites them. This one is for sbx's own service: responses may be silent for hours, trailers
 * are dropped, and pieces are copies, because a stream keeps them. They would share two lines of syntax, and
 * pay for it with a second kind of connection in the proxy's inner loop.
 */
export class BodyReader {
  readonly #connection: ServiceConnection;
  readonly #framing: Framing;
  /** remaining `bytes` of the body, or of the current chunk */
  #remaining: number;
  #hasChunk = false;

  constructor(connection: ServiceConnection, framing: Framing) {
    this.#connection = connection;
    this.#framing = framing;
    this.#remaining = typeof framing === "number" ? framing : framing === "close" ? Infinity : 0;
  }

  /**
   * Reads the next bytes.
   *
   * @returns null at the end
   * @throws TypeError when the body is incomplete or its chunks are malformed
   */
  async next(): Promise<Uint8Array<ArrayBuffer> | null> {
    if (this.#framing === "chunked" && this.#remaining === 0 && !(await this.#nextChunk())) return null;
    if (this.#remaining === 0) return null;
    if (this.#connection.waiting.length === 0 && !(await this.#connection.fill())) {
      if (this.#framing === "close") return null;
      throw new TypeError("the connection ended inside a body");
    }
    const bytes = this.#connection.take(this.#remaining);
    this.#remaining -= bytes.length;
    return bytes;
  }

  /** Reads a whole body of a known, small length. */
  async all(length: number): Promise<Uint8Array<ArrayBuffer>> {
    while (this.#connection.waiting.length < length) {
      if (!(await this.#connection.fill())) throw new TypeError("the connection ended inside a body");
    }
    return this.#connection.take(length);
  }

  async #nextChunk(): Promise<boolean> {
    if (this.#hasChunk && (await this.#readLine()) !== "") {
      throw new TypeError("a chunk is longer than its size");
    }
    const size = /^([0-9A-Fa-f]{1,8})(?:[ \t]*;.*)?$/.exec(await this.#readLine())?.[1];
    if (size === undefined) throw new TypeError("a chunk without a size");
    this.#hasChunk = true;
    this.#remaining = parseInt(size, 16);
    if (this.#remaining > 0) return true;
    while ((await this.#readLine()) !== "") { /* trailers are not forwarded */ }
    return false;
  }

  async #readLine(): Promise<string> {
    while (true) {
      const { waiting } = this.#connection;
      const end = waiting.indexOf(10);
      if (end > 0 && waiting[end - 1] === 13) {
        const line = latin1.decode(waiting.subarray(0, end - 1));
        this.#connection.skip(end + 1);
        return line;
      }
      if (end >= 0 || waiting.length === READ_SIZE) throw new TypeError("unterminated line");
      if (!(await this.#connection.fill())) throw new TypeError("the connection ended inside a body");
    }
  }
}
