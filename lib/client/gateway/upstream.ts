/**
 * HTTP/1.1 client for the service's Unix socket, with reused connections. `fetch` with a Unix proxy has half
 * the speed (tests/bench/gateway.ts), and every request takes this path.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { BodyReader, ConnectionLost, readHead, type ReplyHead, ServiceConnection } from "./connection.ts";

/** Idle connections. */
const IDLE_MAX = 32;

/**
 * One request to the service; `target` and `headers` are already checked for
 * characters not allowed in a head.
 */
export interface UpstreamRequest {
  method: string;
  target: string;
  headers: [string, string][];
  body?: RequestBody;
  /**
   * aborts the request and closes its connection when the client disconnects; called
   * only for a request that takes time
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
   * Sends a request. Repeats it when the service has just closed a reused connection, unless the
   * service may have acted on it already.
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
 * Encodes header values, which are byte strings: one character, one byte. UTF-8 is
 * equal for ASCII, and much faster.
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

// Clients that disconnect while they wait.

/** `ms` between two sweeps over the waiting requests. */
const SWEEP_MS = 25;

/** One request that waits for its response. */
interface WatchedRequest {
  signal: () => AbortSignal;
  onDisconnect: () => void;
  /** sweeps since the request began */
  sweeps: number;
  watched?: AbortSignal;
}

/**
 * Detects clients that disconnect. Creating a request's signal costs a third of the work for a small request,
 * so it is created only for requests that have waited for a sweep or two.
 */
export class ClientWatch {
  readonly #requests = new Set<WatchedRequest>();
  #timer?: ReturnType<typeof setInterval>;

  /** Calls `onDisconnect` at most once, when `signal` aborts. @returns a function that ends the watch */
  watch(signal: () => AbortSignal, onDisconnect: () => void): () => void {
    const request: WatchedRequest = { signal, onDisconnect, sweeps: 0 };
    this.#requests.add(request);
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS);
    return () => {
      this.#requests.delete(request);
      request.watched?.removeEventListener("abort", onDisconnect);
    };
  }

  #sweep(): void {
    if (this.#requests.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    for (const request of this.#requests) {
      if (request.sweeps++ !== 1) continue;
      request.watched = request.signal();
      if (request.watched.aborted) request.onDisconnect();
      else request.watched.addEventListener("abort", request.onDisconnect, { once: true });
    }
  }
}

// Bodies of requests.

/**
 * `bytes` of a request body (docs/design/contracts/02-http.md §2); a file of a workspace may have any size,
 * since it is never whole in memory.
 */
export const BODY_MAX = 10 * 1024 * 1024;
/** `bytes` up to which a body is read whole and sent in one piece. */
const BUFFERED_MAX = 64 * 1024;

/** Body of a request: its bytes, or a stream with the length if it is known. */
type RequestBody = Uint8Array | { length?: number; chunks: AsyncIterable<Uint8Array> };

/**
 * Reads the body of a request and limits its size.
 *
 * @param max most `bytes`
 * @throws {SbxError} `request.invalid`: two lengths; `request.too_large`, here or while the chunks are read
 */
export async function requestBody(request: Request, max = BODY_MAX): Promise<RequestBody | undefined> {
  if (request.body === null) return undefined;
  const declared = request.headers.get("content-length");
  // Deno 2.9 rejects such a request itself; 2.7 does not.
  if (declared !== null && request.headers.has("transfer-encoding")) {
    throw new SbxError("request.invalid", "the request has both Content-Length and Transfer-Encoding", {
      hint: "send only one of them",
    });
  }
  const length = declared === null ? undefined : Number(declared);
  if (length !== undefined && length > max) throw tooLarge(max);
  const chunks = limitSize(request.body, max);
  if (length === undefined || length > BUFFERED_MAX) return { length, chunks };
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return at === length ? bytes : bytes.subarray(0, at);
}

async function* limitSize(body: ReadableStream<Uint8Array>, max: number): AsyncGenerator<Uint8Array> {
  let size = 0, isWhole = false;
  try {
    for await (const chunk of body.values({ preventCancel: true })) {
      size += chunk.length;
      if (size > max) throw tooLarge(max);
      yield chunk;
    }
    isWhole = true;
  } finally {
    if (!isWhole) discardBody(body);
  }
}

/**
 * `bytes` and `ms` for which a body is read although it has been answered
 * (docs/design/contracts/14-limits.md §14).
 */
const DISCARDED_MAX = 64 * 1024 * 1024;
const DISCARD_MS = timeLimit(5000);

/**
 * Reads the rest of a body that is answered before its end, and drops it. If the connection were
 * closed instead, the client's next write would fail, and it would report a broken pipe rather than
 * the answer that it has not read yet.
 */
export function discardBody(body: ReadableStream<Uint8Array>): void {
  const reader = body.getReader();
  const end = () => reader.cancel().catch(ignore("the client is gone"));
  const timer = setTimeout(end, DISCARD_MS);
  const discard = async () => {
    for (let size = 0; size < DISCARDED_MAX;) {
      const { value, done } = await reader.read();
      if (done) return;
      size += value.length;
    }
    await end();
  };
  void discard().catch(ignore("the client is gone")).finally(() => clearTimeout(timer));
}

function tooLarge(max: number): SbxError {
  return new SbxError("request.too_large", `the request body exceeds ${max / 1024 / 1024} MiB`, {
    hint: "sbx cp SRC DST copies files of any size into a VM",
  });
}
