/**
 * The gateway's client of the service: HTTP/1.1 over its Unix socket, on connections that are kept. `fetch` with a
 * Unix proxy does the same at half the speed (tests/bench/gateway.ts), and this is the path of every request.
 */
import { SbxError } from "../base/error/mod.ts";
import { BUFFERED_MAX, type RequestBody } from "./body.ts";
import { Connection, ConnectionLost } from "./connection.ts";
import { ClientWatch } from "./watch.ts";
import { BodyReader, readHead, type ReplyHead } from "./reply.ts";

/** Connections that wait for their next request at most. */
const IDLE_MAX = 32;

/** One request for the service; `target` and `headers` are already checked for what a head may hold. */
export interface UpstreamRequest {
  method: string;
  target: string;
  headers: [string, string][];
  body?: RequestBody;
  /** ends the request, and closes its connection, when the client goes away; asked for only when it takes time */
  signal?: () => AbortSignal;
}

/** What the service answered; a small body is here whole, any other is a stream. */
export interface UpstreamReply {
  status: number;
  headers: [string, string][];
  body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
}

/** The service behind its socket. */
export class Upstream {
  readonly #path: string;
  readonly #idle: Connection[] = [];
  readonly #watch = new ClientWatch();

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Sends a request. One that meets a connection which the service has just closed goes out once more, unless the
   * service may have acted on it already.
   *
   * @throws SbxError `service.unreachable`, or what reading the request's body throws
   */
  async send(request: UpstreamRequest): Promise<UpstreamReply> {
    while (true) {
      const kept = this.#idle.pop();
      kept?.unpark();
      const connection = kept ?? await this.#connect();
      const unwatch = request.signal && this.#watch.watch(request.signal, () => connection.close());
      try {
        return await this.#exchange(connection, request);
      } catch (error) {
        connection.close();
        if (error instanceof SbxError) throw error;
        const again = kept !== undefined && error instanceof ConnectionLost &&
          (error.unsent ? !isStream(request.body) : request.method === "GET");
        if (!again) throw unreachable("the service closed the connection before it had answered", error);
      } finally {
        unwatch?.();
      }
    }
  }

  /** Closes the connections that wait. */
  close(): void {
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  async #connect(): Promise<Connection> {
    try {
      return new Connection(await Deno.connect({ transport: "unix", path: this.#path }));
    } catch (error) {
      throw unreachable("sbx-service does not answer", error);
    }
  }

  async #exchange(connection: Connection, request: UpstreamRequest): Promise<UpstreamReply> {
    const { body: sent } = request;
    const sending = isStream(sent) ? new Sending(connection, request, sent) : undefined;
    if (!isStream(sent)) await sendWhole(connection, request, sent);
    const answer = readHead(connection, request.method);
    const head = await (sending?.race(answer) ?? answer);
    const body = new BodyReader(connection, head.framing);
    const finish = () => this.#release(connection, head, sending?.done ?? true);
    if (typeof head.framing === "number" && head.framing <= BUFFERED_MAX) {
      const bytes = await body.all(head.framing);
      finish();
      return { status: head.status, headers: head.headers, body: bytes };
    }
    return { status: head.status, headers: head.headers, body: stream(body, connection, finish) };
  }

  #release(connection: Connection, head: ReplyHead, sent: boolean): void {
    const clean = head.keepAlive && head.framing !== "close" && head.status !== 101 && sent;
    if (!clean || connection.closed || connection.waiting.length > 0 || this.#idle.length >= IDLE_MAX) {
      return connection.close();
    }
    this.#idle.push(connection);
    connection.park(() => {
      this.#idle.splice(this.#idle.indexOf(connection), 1);
      connection.close();
    });
  }
}

const encoder = new TextEncoder();

type Stream = Exclude<RequestBody, Uint8Array>;

/** A large body on its way out, while the answer may come already (413, 404). */
class Sending {
  done = false;
  readonly #sent: Promise<void>;

  constructor(connection: Connection, request: UpstreamRequest, body: Stream) {
    this.#sent = sendStream(connection, request, body).then(() => {
      this.done = true;
    });
  }

  /** The answer, or the reason why the request did not get out. */
  race(answer: Promise<ReplyHead>): Promise<ReplyHead> {
    return new Promise((resolve, reject) => {
      answer.then(resolve, reject);
      this.#sent.catch((why) => why instanceof SbxError ? reject(why) : answer.catch(() => reject(why)));
    });
  }
}

async function sendWhole(connection: Connection, request: UpstreamRequest, body?: Uint8Array): Promise<void> {
  const head = headOf(request, body === undefined ? "" : `content-length: ${body.length}\r\n`);
  try {
    await connection.write(body === undefined ? head : joined(head, body));
  } catch (error) {
    throw new ConnectionLost(true, error);
  }
}

async function sendStream(connection: Connection, request: UpstreamRequest, body: Stream): Promise<void> {
  const { length, chunks } = body;
  const framing = length === undefined ? "transfer-encoding: chunked\r\n" : `content-length: ${length}\r\n`;
  await connection.write(headOf(request, framing));
  for await (const chunk of chunks) {
    if (chunk.length === 0) continue;
    if (length !== undefined) await connection.write(chunk);
    else await connection.write(joined(encoder.encode(`${chunk.length.toString(16)}\r\n`), chunk, CRLF));
  }
  if (length === undefined) await connection.write(encoder.encode("0\r\n\r\n"));
}

function headOf({ method, target, headers }: UpstreamRequest, framing: string): Uint8Array {
  let head = `${method} ${target} HTTP/1.1\r\nhost: service\r\n${framing}`;
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`;
  return latin1(`${head}\r\n`);
}

const CRLF = encoder.encode("\r\n");

function isStream(body: RequestBody | undefined): body is Stream {
  return body !== undefined && !(body instanceof Uint8Array);
}

/** Header values are byte strings: one character, one byte. UTF-8 is the same where all are ASCII, and much faster. */
function latin1(text: string): Uint8Array {
  const utf8 = encoder.encode(text);
  return utf8.length === text.length ? utf8 : Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function joined(...parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function stream(body: BodyReader, connection: Connection, finish: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      try {
        const bytes = await body.next();
        if (bytes !== null) return controller.enqueue(bytes);
        finish();
        controller.close();
      } catch (error) {
        connection.close();
        controller.error(error);
      }
    },
    cancel: () => connection.close(),
  }, { highWaterMark: 0 });
}

function unreachable(what: string, cause: unknown): SbxError {
  return new SbxError("service.unreachable", what, {
    cause,
    hint: "sbx start starts it; its log is logs/service.log",
  });
}
