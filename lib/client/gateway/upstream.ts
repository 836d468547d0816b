/**
 * HTTP/1.1 client for the service's Unix socket, with reused connections. `fetch` with a Unix proxy has half the speed
 * (tests/bench/gateway.ts), and every request takes this path.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { BUFFERED_MAX, type RequestBody } from "./body.ts";
import { ConnectionLost, ServiceConnection } from "./connection.ts";
import { BodyReader, readHead, type ReplyHead } from "./reply.ts";
import { ClientWatch } from "./watch.ts";

/** Idle connections. */
const IDLE_MAX = 32;

/** One request to the service; `target` and `headers` are already checked for characters not allowed in a head. */
export interface UpstreamRequest {
  method: string;
  target: string;
  headers: [string, string][];
  body?: RequestBody;
  /**
   * aborts the request and closes its connection when the client disconnects; called only for a request that takes
   * time
   */
  signal?: () => AbortSignal;
}

/** Response of the service; a small body is complete, any other is a stream. */
export interface UpstreamReply {
  status: number;
  headers: [string, string][];
  body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
}

/** Client of the service on its socket. */
export class Upstream {
  readonly #path: string;
  readonly #idle: ServiceConnection[] = [];
  readonly #watch = new ClientWatch();

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Sends a request. Repeats it when the service has just closed a reused connection, unless the service may have acted
   * on it already.
   *
   * @throws {SbxError} `service.unreachable`, and the errors of reading the request's body
   */
  async send(request: UpstreamRequest): Promise<UpstreamReply> {
    while (true) {
      const reused = this.#idle.pop();
      reused?.unpark();
      const connection = reused ?? await this.#connect();
      const unwatch = request.signal && this.#watch.watch(request.signal, () => connection.close());
      try {
        return await this.#sendOver(connection, request);
      } catch (error) {
        connection.close();
        if (error instanceof SbxError) throw error;
        const canRepeat = reused !== undefined && error instanceof ConnectionLost &&
          (error.unsent ? !isStream(request.body) : request.method === "GET");
        if (!canRepeat) throw unreachable("sbx-service closed the connection before it responded", error);
      } finally {
        unwatch?.();
      }
    }
  }

  /** Closes the idle connections. */
  close(): void {
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  async #connect(): Promise<ServiceConnection> {
    try {
      return new ServiceConnection(await Deno.connect({ transport: "unix", path: this.#path }));
    } catch (error) {
      throw unreachable("cannot connect to sbx-service", error);
    }
  }

  async #sendOver(connection: ServiceConnection, request: UpstreamRequest): Promise<UpstreamReply> {
    const { body: requestBody } = request;
    const upload = isStream(requestBody) ? new Upload(connection, request, requestBody) : undefined;
    if (!isStream(requestBody)) await sendWhole(connection, request, requestBody);
    const response = readHead(connection, request.method);
    const head = await (upload?.race(response) ?? response);
    const body = new BodyReader(connection, head.framing);
    const finish = () => this.#release(connection, head, upload?.isDone ?? true);
    if (typeof head.framing === "number" && head.framing <= BUFFERED_MAX) {
      const bytes = await body.all(head.framing);
      finish();
      return { status: head.status, headers: head.headers, body: bytes };
    }
    return { status: head.status, headers: head.headers, body: streamBody(body, connection, finish) };
  }

  #release(connection: ServiceConnection, head: ReplyHead, isSent: boolean): void {
    const isReusable = head.keepAlive && head.framing !== "close" && head.status !== 101 && isSent;
    if (!isReusable || connection.closed || connection.waiting.length > 0 || this.#idle.length >= IDLE_MAX) {
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

/** A large body being sent; the response may arrive before its end (413, 404). */
class Upload {
  isDone = false;
  readonly #sending: Promise<void>;

  constructor(connection: ServiceConnection, request: UpstreamRequest, body: Stream) {
    this.#sending = sendStream(connection, request, body).then(() => {
      this.isDone = true;
    });
  }

  /** Waits for the response, or rejects with the reason why the request was not sent. */
  race(response: Promise<ReplyHead>): Promise<ReplyHead> {
    return new Promise((resolve, reject) => {
      response.then(resolve, reject);
      this.#sending.catch((error) =>
        error instanceof SbxError ? reject(error) : response.catch(() => reject(error))
      );
    });
  }
}

async function sendWhole(
  connection: ServiceConnection,
  request: UpstreamRequest,
  body?: Uint8Array,
): Promise<void> {
  const head = headOf(request, body === undefined ? "" : `content-length: ${body.length}\r\n`);
  try {
    await connection.write(body === undefined ? head : joinBytes([head, body]));
  } catch (error) {
    throw new ConnectionLost(true, error);
  }
}

async function sendStream(
  connection: ServiceConnection,
  request: UpstreamRequest,
  body: Stream,
): Promise<void> {
  const { length, chunks } = body;
  const framing = length === undefined ? "transfer-encoding: chunked\r\n" : `content-length: ${length}\r\n`;
  await connection.write(headOf(request, framing));
  for await (const chunk of chunks) {
    if (chunk.length === 0) continue;
    if (length !== undefined) await connection.write(chunk);
    else await connection.write(joinBytes([encoder.encode(`${chunk.length.toString(16)}\r\n`), chunk, CRLF]));
  }
  if (length === undefined) await connection.write(encoder.encode("0\r\n\r\n"));
}

function headOf({ method, target, headers }: UpstreamRequest, framing: string): Uint8Array {
  let head = `${method} ${target} HTTP/1.1\r\nhost: service\r\n${framing}`;
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`;
  return encodeLatin1(`${head}\r\n`);
}

const CRLF = encoder.encode("\r\n");

function isStream(body: RequestBody | undefined): body is Stream {
  return body !== undefined && !(body instanceof Uint8Array);
}

/**
 * Encodes header values, which are byte strings: one character, one byte. UTF-8 is equal for ASCII, and much faster.
 */
function encodeLatin1(text: string): Uint8Array {
  const utf8 = encoder.encode(text);
  return utf8.length === text.length ? utf8 : Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function streamBody(
  body: BodyReader,
  connection: ServiceConnection,
  finish: () => void,
): ReadableStream<Uint8Array> {
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

function unreachable(message: string, cause: unknown): SbxError {
  return new SbxError("service.unreachable", message, {
    cause,
    hint: "start it with sbx start; its log is logs/service.log",
  });
}
