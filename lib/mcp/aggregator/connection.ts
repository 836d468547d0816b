/** One connection to an MCP server: from initialize until it is lost or closed. */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/client/sse"
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
// @ts-types="@modelcontextprotocol/sdk/shared/transport"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import { ErrorCode, type JSONRPCMessage, McpError, ResultSchema } from "@modelcontextprotocol/sdk/types.js";
// @ts-types="@modelcontextprotocol/sdk/validation"
import type { JsonSchemaValidator, jsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/index.js";
import { ignore } from "../../base/error/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import type { Progress, ServerRequest } from "../schema.ts";
import { ANSWER_GRACE_MS, GOODBYE_MS, STREAM_INTERVAL_MS } from "../limit.ts";
import type { ServerFetch } from "../outbound/mod.ts";
import { AnswerWatch, RateWatch, StreamWatch } from "../outbound/body_watch.ts";
import { httpStatus } from "./problem.ts";
// @ts-types="@modelcontextprotocol/sdk/shared/stdio"
import { ReadBuffer } from "@modelcontextprotocol/sdk/shared/stdio.js";
import { Buffer } from "node:buffer";
import { STDIO_URL } from "../outbound/stdio.ts";

export interface RequestOptions {
  timeout: number;
  signal?: AbortSignal;
  onprogress?: (progress: Progress) => void;
}

/** Events of a connection. */
export interface ConnectionEvents {
  /** the server sent a notification */
  onNotification(method: string, params: Record<string, unknown>): void;
  /** the server asks its client */
  onRequest: (
    method: ServerRequest["method"],
    params: Record<string, unknown>,
    signal: AbortSignal,
  ) => Promise<
    Record<string, unknown>
  >;
  /** the server's own stream was interrupted and is open again */
  onReopen(): void;
  /** the connection is lost */
  onLoss(error: Error): void;
  /** an error that leaves the connection usable */
  onWarning(error: Error): void;
}

/** Requests of servers that are passed to the parent, where policy decides. */
const CAPABILITIES = { elicitation: { form: {} }, sampling: {} };

function isServerRequest(method: string): method is ServerRequest["method"] {
  return method === "elicitation/create" || method === "sampling/createMessage";
}

/** HTTP statuses after which the older HTTP+SSE transport is tried (MCP, "Backwards Compatibility"). */
const OLDER_TRANSPORT = [400, 404, 405, 406, 410, 415, 422, 501];
/** The SDK's error when it gives up reopening a server's own stream. */
const STREAM_GIVEN_UP = /^Maximum reconnection attempts/;
/**
 * Output schemas are left to the caller of a tool: compiling them here would run code
 * generated from untrusted input.
 */
const NO_VALIDATION: jsonSchemaValidator = {
  getValidator: <T>(): JsonSchemaValidator<T> => (data) => ({
    valid: true,
    data: data as T,
    errorMessage: undefined,
  }),
};

export class ServerConnection {
  readonly #client: Client;
  readonly #transport: StreamableHTTPClientTransport | SSEClientTransport | StdioTransport;
  readonly #events: ConnectionEvents;
  readonly #pending = new Set<number>();
  #streamOpenedAt = -Infinity;
  /** requests whose response body has ended */
  #ended: { id: number; reason: string; since: number }[] = [];
  #streams = 0;
  #running = 0;
  #isRetired = false;
  #isOver = false;

  /** Connects by Streamable HTTP, then by HTTP+SSE; to a program by its input and output. */
  static async open(
    definition: AggregatorDefinition,
    fetch: ServerFetch,
    events: ConnectionEvents,
    timeout: number,
  ): Promise<ServerConnection> {
    if (definition.stdio) {
      return await new ServerConnection(new StdioTransport(fetch), events).#connect(timeout);
    }
    try {
      return await ServerConnection.#overHttp(definition, fetch, events, StreamableHTTPClientTransport)
        .#connect(timeout);
    } catch (error) {
      if (!OLDER_TRANSPORT.includes(httpStatus(error) ?? 0)) throw error;
      // Most servers lack the older transport; then the first error says more.
      return await ServerConnection.#overHttp(definition, fetch, events, SSEClientTransport).#connect(timeout)
        .catch(() => Promise.reject(error));
    }
  }

  static #overHttp(
    { url }: AggregatorDefinition,
    fetch: ServerFetch,
    events: ConnectionEvents,
    TransportClass: typeof StreamableHTTPClientTransport | typeof SSEClientTransport,
  ): ServerConnection {
    const connection: ServerConnection = new ServerConnection(
      new TransportClass(new URL(url), { fetch: (to, init) => connection.#fetch(fetch, to, init) }),
      events,
    );
    return connection;
  }

  private constructor(
    transport: StreamableHTTPClientTransport | SSEClientTransport | StdioTransport,
    events: ConnectionEvents,
  ) {
    this.#events = events;
    this.#transport = transport;
    if (transport instanceof StdioTransport) transport.ended.catch((reason) => this.#lose(reason));
    this.#client = new Client({ name: "sbx", version: VERSION }, {
      capabilities: CAPABILITIES,
      jsonSchemaValidator: NO_VALIDATION,
    });
    // Not by method: the SDK would check and change requests and answers that are the parent's to check.
    this.#client.fallbackRequestHandler = ({ method, params }, { signal }) => {
      if (isServerRequest(method)) return events.onRequest(method, params ?? {}, signal);
      throw new McpError(ErrorCode.MethodNotFound, "Method not found");
    };
    this.#client.onerror = (error) => this.#handleError(error);
    this.#client.onclose = () => this.#lose(new Error("the connection was closed"));
    this.#client.fallbackNotificationHandler = ({ method, params }) => {
      events.onNotification(method, params ?? {});
      return Promise.resolve();
    };
    const send = transport.send.bind(transport);
    transport.send = (message: JSONRPCMessage) => {
      if ("method" in message && "id" in message) this.#pending.add(Number(message.id));
      return send(message);
    };
    (transport as Transport).onmessage = (message) => {
      if (!("method" in message)) this.#pending.delete(Number(message.id));
    };
  }

  has(capability: "tools" | "resources" | "prompts" | "logging"): boolean {
    return this.#client.getServerCapabilities()?.[capability] !== undefined;
  }

  /** Sends a request. @returns the result, checked to be an object only */
  async request(
    method: string,
    params: Record<string, unknown>,
    options: RequestOptions,
  ): Promise<Record<string, unknown>> {
    this.#running++;
    try {
      return await this.#client.request({ method, params }, ResultSchema, options);
    } finally {
      if (--this.#running === 0 && this.#isRetired) this.close();
    }
  }

  /** Stops reporting events, and closes once the requests in progress are answered. */
  retire(): void {
    this.#isOver = true;
    this.#isRetired = true;
    if (this.#running === 0) this.close();
  }

  /** Ends the session at the server, then closes the connection. */
  async close(): Promise<void> {
    this.#isOver = true;
    if (this.#transport instanceof StreamableHTTPClientTransport) {
      const late = backgroundDelay(GOODBYE_MS);
      await Promise.race([
        this.#transport.terminateSession().catch(ignore("the server ends the session on its own")),
        late,
      ]);
    }
    await this.#client.close().catch(ignore("the transport has closed"));
  }

  async #connect(timeout: number): Promise<this> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const program = this.#transport instanceof StdioTransport ? this.#transport : undefined;
    const late = new Promise<never>((_, reject) => {
      const expire = () => reject(new TypeError(program?.lateness ?? "the server did not answer in time"));
      timer = setTimeout(expire, timeout);
    });
    try {
      // The request's timeout covers neither the opening of a stream nor the notification that follows.
      const connected = this.#client.connect(this.#transport as Transport, { timeout });
      connected.catch(ignore("awaited below, unless the wait ends first"));
      await Promise.race(program ? [program.ended, connected, late] : [connected, late]);
      return this;
    } catch (error) {
      this.#isOver = true;
      this.#client.close().catch(ignore("the failure that led here is reported"));
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #fetch(fetch: ServerFetch, url: string | URL, init: RequestInit = {}): Promise<Response> {
    if (init.method === "POST") {
      // The SDK writes the id last; a notification has none.
      const id = /"id":(\d+)\}$/.exec(init.body as string)?.[1];
      const watch = new AnswerWatch((reason, isResumable) =>
        id && this.#handleBodyEnd(Number(id), reason, isResumable)
      );
      return await fetch(url, init, watch);
    }
    if (init.method === "DELETE") return await fetch(url, init);
    const pause = this.#streamOpenedAt + STREAM_INTERVAL_MS - performance.now();
    this.#streamOpenedAt = performance.now() + Math.max(0, pause);
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    const isReopened = this.#streams++ > 0;
    const response = await fetch(url, init, new StreamWatch());
    if (isReopened && response.ok) this.#events.onReopen();
    return response;
  }

  /** Fails the request of a body that ended without its answer, before the request's timeout. */
  #handleBodyEnd(id: number, reason: string, isResumable: boolean): void {
    if (isResumable || this.#transport instanceof SSEClientTransport) return;
    this.#ended.push({ id, reason, since: performance.now() });
    // One timer for all bodies that end meanwhile: nearly every body contains its answer.
    if (this.#ended.length === 1) setTimeout(() => this.#failUnanswered(), ANSWER_GRACE_MS);
  }

  #failUnanswered(): void {
    const until = performance.now() - ANSWER_GRACE_MS;
    const due = this.#ended.filter(({ since }) => since <= until);
    this.#ended = this.#ended.filter(({ since }) => since > until);
    if (this.#ended.length > 0) setTimeout(() => this.#failUnanswered(), ANSWER_GRACE_MS);
    for (const { id, reason } of due) {
      if (!this.#pending.has(id)) continue;
      const error = { code: ErrorCode.InternalError, message: reason };
      (this.#transport as Transport).onmessage?.({ jsonrpc: "2.0", id, error });
    }
  }

  #handleError(error: Error): void {
    const isStream = this.#transport instanceof SSEClientTransport && error.name === "SseError";
    if (isStream || error.constructor.name === "SseError" || STREAM_GIVEN_UP.test(error.message)) {
      this.#lose(error);
    } else if (!this.#isOver) this.#events.onWarning(error);
  }

  #lose(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client.close().catch(ignore("the loss is reported"));
    this.#events.onLoss(error);
  }
}

// MCP's stdio transport, over the private wire: the program itself runs in a
// VM, and is started by the parent.

class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** rejects with the reason why the program ended, before `onclose` */
  readonly ended: Promise<never>;
  readonly #fetch: ServerFetch;
  readonly #abort = new AbortController();
  readonly #end = Promise.withResolvers<never>();
  #hasStarted = false;

  constructor(fetch: ServerFetch) {
    this.#fetch = fetch;
    this.ended = this.#end.promise;
    this.ended.catch(ignore("awaited by connections that are open"));
  }

  /** reason to give when the server has not answered in time */
  get lateness(): string {
    return this.#hasStarted ? "the server did not answer in time" : "its VM is still starting";
  }

  async start(): Promise<void> {
    const { signal } = this.#abort;
    const { body } = await this.#fetch(STDIO_URL, { method: "GET", signal }, new RateWatch());
    this.#hasStarted = true;
    this.#read(body!);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.#fetch(STDIO_URL, { method: "POST", body: JSON.stringify(message) });
  }

  close(): Promise<void> {
    this.#abort.abort(new TypeError("the connection was closed"));
    return Promise.resolve();
  }

  async #read(output: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    try {
      const buffer = new ReadBuffer();
      for await (const chunk of output) {
        buffer.append(Buffer.from(chunk));
        while (this.#receive(buffer));
      }
      this.#end.reject(new TypeError("its program ended"));
    } catch (error) {
      this.#end.reject(error);
    }
    // After the waiters for the reason: `onclose` gives none.
    queueMicrotask(() => this.onclose?.());
  }

  /** @returns whether there was a whole line */
  #receive(buffer: ReadBuffer): boolean {
    let message: JSONRPCMessage | null = null;
    try {
      message = buffer.readMessage();
    } catch {
      this.onerror?.(new TypeError("its program wrote a line that is not MCP"));
      return true;
    }
    if (message) this.onmessage?.(message);
    return message !== null;
  }
}
