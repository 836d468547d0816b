/**
 * The gateway's client of the service: HTTP/1.1 over its Unix socket, on connections that are kept. `fetch` with a
 * Unix proxy does the same at half the speed (tests/bench/gateway.ts), and this is the path of every request.
 */
import { SbxError } from "../error/mod.ts";
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
    const sending = new Sending(connection, request);
    const head = await sending.race(readHead(connection, request.method));
    const body = new BodyReader(connection, head.framing);
    const finish = () => this.#release(connection, head, sending);
    if (typeof head.framing === "number" && head.framing <= BUFFERED_MAX) {
      const bytes = await body.all(head.framing);
      finish();
      return { status: head.status, headers: head.headers, body: bytes };
    }
    return { status: head.status, headers: head.headers, body: stream(body, connection, finish) };
  }

  #release(connection: Connection, head: ReplyHead, sending: Sending): void {
    const clean = head.keepAlive && head.framing !== "close" && head.status !== 101 && sending.done;
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

/** A request on its way out; a large body is still going while the answer may come. */
class Sending {
  done = false;
  readonly #streams: boolean;
  readonly #sent: Promise<void>;

  constructor(connection: Connection, request: UpstreamRequest) {
    this.#streams = isStream(request.body);
    this.#sent = send(connection, request).then(() => {
      this.done = true;
    });
  }

  /** The answer, which may come before all is sent (413, 404), or the reason why the request did not get out. */
  race(answer: Promise<ReplyHead>): Promise<ReplyHead> {
    return new Promise((resolve, reject) => {
      const settle = (why: unknown) =>
        this.#streams ? reject(why) : this.#sent.then(() => reject(why), reject);
      answer.then(resolve, settle);
      this.#sent.catch((why) => why instanceof SbxError ? reject(why) : answer.catch(() => reject(why)));
    });
  }
}

async function send(
  connection: Connection,
  { method, target, headers, body }: UpstreamRequest,
): Promise<void> {
  const length = body?.length;
  let head = `${method} ${target} HTTP/1.1\r\nhost: service\r\n`;
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`;
  if (length !== undefined) head += `content-length: ${length}\r\n`;
  else if (body !== undefined) head += "transfer-encoding: chunked\r\n";
  const bytes = latin1(`${head}\r\n`);
  try {
    await connection.write(body instanceof Uint8Array ? joined(bytes, body) : bytes);
  } catch (error) {
    throw new ConnectionLost(true, error);
  }
  if (!isStream(body)) return;
  for await (const chunk of body.chunks) {
    if (chunk.length === 0) continue;
    if (length !== undefined) await connection.write(chunk);
    else await connection.write(joined(encoder.encode(`${chunk.length.toString(16)}\r\n`), chunk, CRLF));
  }
  if (length === undefined) await connection.write(encoder.encode("0\r\n\r\n"));
}

const CRLF = encoder.encode("\r\n");

function isStream(body: RequestBody | undefined): body is Exclude<RequestBody, Uint8Array> {
  return body !== undefined && !(body instanceof Uint8Array);
}

/** Header values are byte strings: one character, one byte. */
function latin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
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
