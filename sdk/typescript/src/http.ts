import { type IncomingMessage, request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import type { Endpoint } from "./address.ts";
import { answerError, SbxError } from "./error.ts";
import { API_VERSION, SDK_VERSION } from "./version.ts";

/** Parts of one request. */
export interface RequestParts {
  query?: Record<string, string | number | boolean | undefined>;
  json?: unknown;
  body?: Uint8Array | AsyncIterable<Uint8Array>;
  accept?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** sent again although its connection broke: a read, or a request with an idempotency key */
  repeats?: boolean;
}

/** An answer with a 2xx status, whose body is not read yet. */
export interface Answer {
  status: number;
  body: AsyncIterable<Uint8Array>;
}

/** First and longest pause before a request is sent again, in `ms`. */
const PAUSE_MS = 200, PAUSE_MAX_MS = 5000;
/** Time of all tries in `ms`: of an sbx that has answered before, and of one that may not be there. */
const TRIES_MS = 30_000, FIRST_TRIES_MS = 2000;
/** Most `bytes` that are read of an error. */
const ERROR_MAX = 64 * 1024;

/** Sends requests to one sbx, and again where docs/guides/integrators.md says so. */
export class Http {
  readonly endpoint: Endpoint;
  #hasAnswered = false;

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
  }

  async send(method: string, path: string, parts: RequestParts = {}): Promise<Answer> {
    requirePath(path);
    const deadline = performance.now() + (this.#hasAnswered ? TRIES_MS : FIRST_TRIES_MS);
    let renewed = false;
    for (let pause = PAUSE_MS;; pause = Math.min(pause * 2, PAUSE_MAX_MS)) {
      let wait = pause;
      try {
        const message = await this.#once(method, path, parts);
        this.#hasAnswered = true;
        const status = message.statusCode ?? 0;
        if (status >= 200 && status < 300) return { status, body: bodyOf(message) };
        const error = answerError(status, await textOf(bodyOf(message), ERROR_MAX));
        if (error.code === "auth.bad_token" && !renewed) {
          renewed = true;
          const before = this.endpoint.token();
          if (this.endpoint.token(true) !== before) continue;
        }
        const mayAgain = status === 503 && error.code === "vm.busy" || status === 429 ||
          parts.repeats && error.code === "service.unreachable";
        if (!mayAgain || isStream(parts.body)) throw error;
        const after = Number(message.headers["retry-after"]);
        if (after > 0) wait = Math.max(pause, after * 1000);
        if (performance.now() + wait > deadline) throw error;
      } catch (cause) {
        if (cause instanceof SbxError || parts.signal?.aborted) throw cause;
        const error = this.#unreachable(cause);
        // Where no connection was made, nothing was sent.
        const unsent = ["ECONNREFUSED", "ENOENT"].includes((cause as { code?: string }).code ?? "");
        if (!(parts.repeats || unsent) || isStream(parts.body)) throw error;
        if (performance.now() + wait > deadline) throw error;
      }
      await sleep(wait, parts.signal);
    }
  }

  /** The JSON of an answer. @throws {SbxError} */
  json<T>(method: string, path: string, parts: RequestParts = {}): Promise<T> {
    return this.whole(method, path, parts, (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as T);
  }

  /** What `read` makes of a whole answer; a request that repeats is sent again where its answer broke off. */
  async whole<T>(
    method: string,
    path: string,
    parts: RequestParts,
    read: (bytes: Uint8Array) => T,
  ): Promise<T> {
    const repeats = parts.repeats ?? method === "GET";
    for (let first = true;; first = false) {
      const { body } = await this.send(method, path, { ...parts, repeats });
      try {
        return read(await bytesOf(body));
      } catch (cause) {
        // The answer broke off.
        if (parts.signal?.aborted) throw cause;
        if (!repeats || !first) throw this.#unreachable(cause);
      }
    }
  }

  /** The pieces of an answer as they come. @throws {SbxError} `gateway.unreachable`: it broke off */
  async *pieces(method: string, path: string, parts: RequestParts): AsyncGenerator<Uint8Array> {
    const { body } = await this.send(method, path, parts);
    try {
      yield* body;
    } catch (cause) {
      throw parts.signal?.aborted ? cause : this.#unreachable(cause);
    }
  }

  #once(method: string, path: string, parts: RequestParts): Promise<IncomingMessage> {
    const { socket, secure, hostname, port, tls } = this.endpoint;
    const token = this.endpoint.token();
    const json = parts.json === undefined ? undefined : new TextEncoder().encode(JSON.stringify(parts.json));
    const bytes = json ?? (parts.body instanceof Uint8Array ? parts.body : undefined);
    const headers: Record<string, string> = {
      "user-agent": `sbx-sdk-typescript/${SDK_VERSION}`,
      "sbx-api-version": API_VERSION,
      host: socket ? "127.0.0.1" : hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(parts.accept !== undefined && { accept: parts.accept }),
      ...(json && { "content-type": "application/json" }),
      ...(bytes && { "content-length": String(bytes.length) }),
      ...parts.headers,
    };
    const options = {
      ...(socket ? { socketPath: socket } : { hostname, port }),
      ...(secure && tls),
      method,
      path: path + queryOf(parts.query),
      headers,
      // A connection of its own: one that was kept may be of a service that is gone.
      agent: false as const,
      signal: parts.signal,
    };
    return new Promise((resolve, reject) => {
      const request = secure ? secureRequest(options, resolve) : plainRequest(options, resolve);
      request.on("error", reject);
      if (bytes) request.end(bytes);
      else if (parts.body) {
        upload(request, parts.body as AsyncIterable<Uint8Array>).catch((error) => request.destroy(error));
      } else request.end();
    });
  }

  #unreachable(cause: unknown): SbxError {
    const { socket, hostname, port } = this.endpoint;
    return new SbxError("gateway.unreachable", `no answer at ${socket ?? `${hostname}:${port}`}`, {
      cause,
      hint: "start it: sbx start; sbx status lists the running programs",
    });
  }
}

async function upload(
  request: ReturnType<typeof plainRequest>,
  chunks: AsyncIterable<Uint8Array>,
): Promise<void> {
  for await (const chunk of chunks) {
    if (!request.write(chunk)) {
      await new Promise<void>((resolve, reject) => {
        request.once("drain", resolve);
        request.once("close", () => reject(new Error("the connection broke")));
      });
    }
  }
  request.end();
}

async function* bodyOf(message: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of message) yield new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (!message.complete) throw new Error("the answer broke off");
  } finally {
    message.destroy();
  }
}

/** All bytes of a stream, or its begin. @param max `bytes` after which the rest is not read */
export async function bytesOf(body: AsyncIterable<Uint8Array>, max = Infinity): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= max) break;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

async function textOf(body: AsyncIterable<Uint8Array>, max?: number): Promise<string> {
  return new TextDecoder().decode(await bytesOf(body, max));
}

/** @throws {SbxError} `request.invalid`: the path would end the first line of its request */
export function requirePath(path: string): void {
  if (/^\/[\x21-\x7e]*$/.test(path)) return;
  throw new SbxError("request.invalid", "the path has characters that are not allowed in a URL", {
    hint: "percent-encode them",
  });
}

/** A query with its `?`; empty without values. */
export function queryOf(query: RequestParts["query"]): string {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]]
  );
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
}

/** One segment of a path. @throws {SbxError} `request.invalid`: the text would change the path */
export function segment(text: string): string {
  if (text !== "" && text !== "." && text !== ".." && !text.includes("/")) return encodeURIComponent(text);
  throw new SbxError("request.invalid", `${JSON.stringify(text)} is not a name or an id`);
}

/** Waits, or ends at once with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** A stream cannot be sent twice. */
function isStream(body: RequestParts["body"]): boolean {
  return body !== undefined && !(body instanceof Uint8Array);
}
