/**
 * The host's end of the private wire: the aggregator's only way to the network, where credentials are added.
 */
import type { AggregatorDefinition } from "../definition.ts";
import type { EntryKind, Progress, RequestAnswerer, ServerNotice, ServerRequest } from "../schema.ts";
import {
  DATA_BYTES,
  type Frame,
  FrameKind,
  FrameWire,
  LIST_BITS,
  OutboundRefusal,
  type ResponseHead,
  WINDOW,
} from "./frame.ts";
import { filterOf, SecretFilter } from "./secret.ts";
import { STDIO_TYPE, StdioPrograms, type StdioStarter } from "./stdio.ts";
import {
  type AllowedServer,
  allowedServers,
  type CredentialResolver,
  Credentials,
  failureText,
  findServer,
  headersOf,
  readRequest,
  type ServerLogins,
} from "./target.ts";
import { isObject } from "../../base/object/mod.ts";
import { QUESTIONS_MAX } from "../limit.ts";

export interface OutboundOptions {
  resolve?: CredentialResolver;
  logins?: ServerLogins;
  /** absent: stdio servers are refused */
  startStdio?: StdioStarter;
  onProgress?(id: number, progress: Progress): void;
  onChanged?(kinds: EntryKind[]): void;
  onNotice?(notice: ServerNotice): void;
  /** absent: every request of a server is refused */
  onRequest?: RequestAnswerer;
}

const LISTS = ["tools", "resources", "prompts"] as const;
/** Concurrent requests; every server may have a stream and calls beside it. */
const FORWARDED_MAX = 4096;

/** Response headers that an MCP client reads; cookies and all others are dropped. */
const RESPONSE_HEADERS = [
  "content-type",
  "location",
  "retry-after",
  "mcp-session-id",
  "mcp-protocol-version",
];

/** One request in progress. */
interface ForwardedRequest {
  abort: AbortController;
  server: AllowedServer;
  /** bytes of the body that may be sent */
  credit: number;
  /** called when credit is added */
  onCredit?: () => void;
}

/** Carries the requests of one aggregator. */
export class OutboundServer {
  readonly #options: OutboundOptions;
  readonly #requests = new Map<number, ForwardedRequest>();
  #servers: Map<string, AllowedServer>;
  #previousServers = new Map<string, AllowedServer>();
  /** secrets sent since the start: a server may pass one on to another */
  readonly #secrets = new SecretFilter();
  readonly #credentials: Credentials;
  #hasSecrets: boolean;
  readonly #syncs = new Map<number, () => void>();
  readonly #questions: Questions;
  readonly #programs: StdioPrograms;
  #lastSync = 0;
  #wire?: FrameWire;

  constructor(definitions: AggregatorDefinition[], options: OutboundOptions = {}) {
    this.#servers = allowedServers(definitions);
    // A person may log in while a stream is open.
    this.#hasSecrets = options.logins !== undefined || usesSecrets(definitions);
    this.#options = options;
    this.#credentials = new Credentials(options, this.#secrets);
    this.#programs = new StdioPrograms(options.startStdio);
    this.#questions = new Questions(
      options.onRequest ?? (() => Promise.reject(new Error("requests of servers are not answered here"))),
    );
  }

  /**
   * Allows these servers; the previous ones stay allowed until {@linkcode settle}, so
   * that their sessions can be closed.
   */
  allow(definitions: AggregatorDefinition[]): void {
    this.#previousServers = this.#servers;
    this.#servers = allowedServers(definitions);
    this.#hasSecrets ||= usesSecrets(definitions);
  }

  /** Aborts requests to servers that are not allowed any more. */
  settle(): void {
    this.#previousServers = new Map();
    const servers = new Set(this.#servers.values());
    for (const { abort, server } of this.#requests.values()) if (!servers.has(server)) abort.abort();
  }

  /** Cancels a request of the NDJSON protocol in the aggregator. */
  abort(id: number): void {
    this.#wire?.send(FrameKind.Abort, id);
  }

  /**
   * Settles when every frame that the aggregator has sent so far is handled: its
   * pipe and this wire share no order.
   */
  sync(): Promise<void> {
    const wire = this.#wire;
    if (!wire) return Promise.resolve();
    const id = this.#lastSync = (this.#lastSync + 1) >>> 0;
    return new Promise((resolve) => {
      this.#syncs.set(id, resolve);
      wire.send(FrameKind.Sync, id);
    });
  }

  /** Serves until the connection ends; all its requests end with it. */
  async serve(conn: Deno.Conn): Promise<void> {
    const wire = this.#wire = new FrameWire(conn);
    await wire.receive((frame) => this.#handle(wire, frame));
    this.close();
  }

  close(): void {
    this.#wire?.close();
    this.#wire = undefined;
    for (const resolve of this.#syncs.values()) resolve();
    this.#syncs.clear();
    this.#questions.close();
    for (const { abort } of this.#requests.values()) abort.abort();
  }

  /** @returns false when the other end breaks the protocol */
  #handle(wire: FrameWire, frame: Frame): boolean {
    const { kind, id, payload } = frame;
    const request = this.#requests.get(id);
    switch (kind) {
      case FrameKind.Open:
        if (request || this.#requests.size >= FORWARDED_MAX) return false;
        this.#forward(wire, id, payload);
        return true;
      case FrameKind.Cancel:
        request?.abort.abort();
        return true;
      case FrameKind.Credit:
        if (payload.length !== 4) return false;
        if (request) {
          request.credit += new DataView(payload.buffer, payload.byteOffset).getUint32(0);
          request.onCredit?.();
        }
        return true;
      case FrameKind.Progress: {
        const progress = readProgress(payload);
        if (progress) this.#options.onProgress?.(id, progress);
        return progress !== undefined;
      }
      case FrameKind.Notice: {
        const notice = readNotice(payload);
        if (notice) this.#options.onNotice?.(notice);
        return notice !== undefined;
      }
      case FrameKind.Request:
      case FrameKind.Withdraw:
        return this.#questions.receive(wire, frame);
      case FrameKind.Sync:
        this.#syncs.get(id)?.();
        return this.#syncs.delete(id);
      case FrameKind.Changed:
        this.#options.onChanged?.(LISTS.filter((kind) => id & LIST_BITS[kind]));
        return true;
      default:
        return false;
    }
  }

  async #forward(wire: FrameWire, id: number, payload: Uint8Array): Promise<void> {
    const parsed = readRequest(payload);
    if (!parsed) return wire.send(FrameKind.Fail, id, "malformed request");
    const { head, body } = parsed;
    const match = findServer(head, this.#servers.get(head.server), this.#previousServers.get(head.server));
    if (typeof match === "string") return wire.send(FrameKind.Fail, id, match);
    const { to, server } = match;
    const request: ForwardedRequest = { abort: new AbortController(), server, credit: WINDOW };
    this.#requests.set(id, request);
    // One listener for all waits of the request.
    request.abort.signal.addEventListener("abort", () => request.onCredit?.(), { once: true });
    try {
      if (server.definition.stdio) return await this.#relayStdio(wire, id, request, head.method, body);
      await this.#relay(wire, id, request, to, {
        method: head.method,
        headers: headersOf(head, server),
        body: head.method === "POST" ? body : undefined,
        redirect: "manual",
        signal: request.abort.signal,
      });
    } catch (error) {
      wire.send(FrameKind.Fail, id, error instanceof OutboundRefusal ? error.message : failureText(error));
      // Discards the rest of the response.
      request.abort.abort();
    } finally {
      this.#requests.delete(id);
    }
  }

  async #relay(
    wire: FrameWire,
    id: number,
    request: ForwardedRequest,
    to: URL,
    init: RequestInit & { headers: Record<string, string> },
  ): Promise<void> {
    const response = await this.#credentials.send(request.server, to, init);
    const filter = this.#hasSecrets ? filterOf(response, init.method, this.#secrets) : undefined;
    const head: ResponseHead = { status: response.status, headers: this.#pickHeaders(response.headers) };
    wire.send(FrameKind.Head, id, JSON.stringify(head));
    for await (const chunk of isSmall(response) ? [await response.bytes()] : response.body ?? []) {
      await this.#sendData(wire, id, request, filter ? filter.push(chunk) : chunk);
    }
    if (filter) await this.#sendData(wire, id, request, filter.end());
    wire.send(FrameKind.End, id);
  }

  async #relayStdio(
    wire: FrameWire,
    id: number,
    request: ForwardedRequest,
    method: string,
    body: Uint8Array,
  ): Promise<void> {
    const { name } = request.server.definition;
    const respond = (head: ResponseHead) => wire.send(FrameKind.Head, id, JSON.stringify(head));
    if (method === "POST") {
      await this.#programs.write(name, body);
      respond({ status: 202, headers: [] });
      return wire.send(FrameKind.End, id);
    }
    const lines = await this.#programs.open(name, request.abort.signal);
    respond({ status: 200, headers: [["content-type", STDIO_TYPE]] });
    for await (const line of lines) {
      const text = this.#hasSecrets ? this.#secrets.message(line) : line;
      await this.#sendData(wire, id, request, new TextEncoder().encode(`${text}\n`));
    }
  }

  #pickHeaders(headers: Headers): [string, string][] {
    const picked: [string, string][] = [];
    for (const name of RESPONSE_HEADERS) {
      const value = headers.get(name);
      if (value !== null) picked.push([name, this.#secrets.text(value)]);
    }
    return picked;
  }

  /** Sends bytes within the credit of the other end. */
  async #sendData(wire: FrameWire, id: number, request: ForwardedRequest, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      while (request.credit <= 0) await this.#waitForCredit(request);
      const part = bytes.subarray(at, at + Math.min(request.credit, DATA_BYTES));
      request.credit -= part.length;
      wire.send(FrameKind.Data, id, part);
      at += part.length;
    }
  }

  async #waitForCredit(request: ForwardedRequest): Promise<void> {
    const { signal } = request.abort;
    signal.throwIfAborted();
    await new Promise<void>((resolve) => request.onCredit = resolve);
    signal.throwIfAborted();
  }
}

function usesSecrets(definitions: AggregatorDefinition[]): boolean {
  return definitions.some(({ auth }) => auth !== undefined);
}

/** Tests whether the whole body can be read at once instead of as a stream. */
function isSmall({ headers, body }: Response): boolean {
  const length = headers.get("content-length");
  return body !== null && length !== null && !headers.has("content-encoding") && Number(length) <= DATA_BYTES;
}

// Reports of the aggregator over the private wire, checked: it runs code that talks to untrusted servers.

const NOTICES = ["notifications/message", "notifications/resources/updated"];

/** Reads the payload of a `Notice` frame. @returns `undefined` when it is malformed */
function readNotice(payload: Uint8Array): ServerNotice | undefined {
  try {
    const { server, method, params } = JSON.parse(new TextDecoder().decode(payload));
    const isNotice = typeof server === "string" && NOTICES.includes(method) && isObject(params);
    return isNotice ? { server, method, params } : undefined;
  } catch {
    return undefined;
  }
}

/** Reads the payload of a `Progress` frame. @returns `undefined` when it is malformed */
function readProgress(payload: Uint8Array): Progress | undefined {
  try {
    const { progress, total, message } = JSON.parse(new TextDecoder().decode(payload));
    if (typeof progress !== "number") return undefined;
    return {
      progress,
      ...(typeof total === "number" && { total }),
      ...(typeof message === "string" && { message }),
    };
  } catch {
    return undefined;
  }
}

// Requests of servers to their client, answered by the parent.

const QUESTION_METHODS = ["elicitation/create", "sampling/createMessage"];

class Questions {
  readonly #answerer: RequestAnswerer;
  readonly #pending = new Map<number, AbortController>();

  constructor(answerer: RequestAnswerer) {
    this.#answerer = answerer;
  }

  /** Handles a `Request` or `Withdraw` frame. @returns false when it breaks the protocol */
  receive(wire: FrameWire, { kind, id, payload }: Frame): boolean {
    if (kind === FrameKind.Withdraw) {
      this.#pending.get(id)?.abort(new Error("the server withdrew the request"));
      return true;
    }
    const request = readQuestion(payload);
    if (!request || this.#pending.has(id)) return false;
    this.#answer(wire, id, request);
    return true;
  }

  /** Ends every request. */
  close(): void {
    for (const abort of this.#pending.values()) abort.abort(new Error("the connection was closed"));
  }

  async #answer(wire: FrameWire, id: number, request: ServerRequest): Promise<void> {
    const send = (answer: object) => wire.send(FrameKind.Answer, id, JSON.stringify(answer));
    if (this.#pending.size >= QUESTIONS_MAX) {
      return send({ error: `${QUESTIONS_MAX} requests of servers are waiting, the limit` });
    }
    const abort = new AbortController();
    this.#pending.set(id, abort);
    try {
      send({ result: await this.#answerer(request, abort.signal) });
    } catch (error) {
      send({ error: (error as Error).message });
    } finally {
      this.#pending.delete(id);
    }
  }
}

function readQuestion(payload: Uint8Array): ServerRequest | undefined {
  try {
    const { server, method, params } = JSON.parse(new TextDecoder().decode(payload));
    const isRequest = typeof server === "string" && QUESTION_METHODS.includes(method) && isObject(params);
    return isRequest ? { server, method, params } : undefined;
  } catch {
    return undefined;
  }
}
