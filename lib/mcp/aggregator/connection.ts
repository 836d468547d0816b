/** One life of an MCP client: from initialize until the connection is lost or closed. */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/client/sse"
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
// @ts-types="@modelcontextprotocol/sdk/shared/transport"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import { ErrorCode, type JSONRPCMessage, ResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { VERSION } from "../../base/version/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import type { Progress } from "../entry.ts";
import { ANSWER_GRACE_MS, GOODBYE_MS, STREAM_INTERVAL_MS } from "../limit.ts";
import type { ServerFetch } from "../outbound/mod.ts";
import { AnswerWatch, StreamWatch } from "../outbound/watch.ts";
import { httpStatus } from "./problem.ts";

export interface RequestOptions {
  timeout: number;
  signal?: AbortSignal;
  onprogress?: (progress: Progress) => void;
}

/** What a connection tells of itself. */
export interface ConnectionEvents {
  /** a notification that the server sent */
  notified(method: string): void;
  /** its own stream was away, and is opened again */
  reopened(): void;
  /** it is of no more use */
  lost(error: Error): void;
  /** something that is not as it should be, and that does no harm */
  warned(error: Error): void;
}

/** HTTP answers after which the older HTTP+SSE transport may be what the server speaks (MCP, "Backwards Compatibility"). */
const OLDER_TRANSPORT = [400, 404, 405, 406, 410, 415, 422, 501];
/** What the SDK says when a server's own stream cannot be opened again. */
const STREAM_GIVEN_UP = /^Maximum reconnection attempts/;
/** The server's output schemas are for whoever uses the results; compiling them here would run code made by strangers. */
const NO_VALIDATION = {
  getValidator: () => (data: any) => ({ valid: true as const, data, errorMessage: undefined }),
};

export class Connection {
  readonly #client: Client;
  readonly #transport: StreamableHTTPClientTransport | SSEClientTransport;
  readonly #events: ConnectionEvents;
  readonly #pending = new Set<number>();
  #streamOpened = -Infinity;
  #ended: { id: number; reason: string; since: number }[] = [];
  #streams = 0;
  #running = 0;
  #isRetired = false;
  #over = false;

  /** Connects by Streamable HTTP, or else by HTTP+SSE. */
  static async open(
    definition: AggregatorDefinition,
    fetch: ServerFetch,
    events: ConnectionEvents,
    timeout: number,
  ): Promise<Connection> {
    const url = new URL(definition.url);
    try {
      return await new Connection(url, fetch, events, StreamableHTTPClientTransport).#connect(timeout);
    } catch (error) {
      if (!OLDER_TRANSPORT.includes(httpStatus(error) ?? 0)) throw error;
      // Most servers of today have no such transport; then the first refusal says more.
      return await new Connection(url, fetch, events, SSEClientTransport).#connect(timeout)
        .catch(() => Promise.reject(error));
    }
  }

  private constructor(
    url: URL,
    fetch: ServerFetch,
    events: ConnectionEvents,
    Kind: typeof StreamableHTTPClientTransport | typeof SSEClientTransport,
  ) {
    this.#events = events;
    const options = { fetch: (to: string | URL, init?: RequestInit) => this.#fetch(fetch, to, init) };
    const transport = this.#transport = new Kind(url, options);
    this.#client = new Client({ name: "sbx", version: VERSION }, { jsonSchemaValidator: NO_VALIDATION });
    this.#client.onerror = (error) => this.#failed(error);
    this.#client.onclose = () => this.#lose(new Error("the connection to it was closed"));
    this.#client.fallbackNotificationHandler = ({ method }) => {
      events.notified(method);
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

  has(capability: "tools" | "resources" | "prompts"): boolean {
    return this.#client.getServerCapabilities()?.[capability] !== undefined;
  }

  /** The result of a request, of which no more is known than that it is an object. */
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

  /** Takes no part any more, and ends when what is under way on it is answered. */
  retire(): void {
    this.#over = true;
    this.#isRetired = true;
    if (this.#running === 0) this.close();
  }

  /** Ends the session, and tells the server so if it listens. */
  async close(): Promise<void> {
    this.#over = true;
    if (this.#transport instanceof StreamableHTTPClientTransport) {
      const late = new Promise((resolve) => Deno.unrefTimer(setTimeout(resolve, GOODBYE_MS)));
      await Promise.race([this.#transport.terminateSession().catch(() => {}), late]);
    }
    await this.#client.close().catch(() => {});
  }

  async #connect(timeout: number): Promise<this> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new TypeError("it did not answer in time")), timeout);
    });
    try {
      // The timeout of the request does not cover the opening of a stream, nor the notification that follows it.
      const connected = this.#client.connect(this.#transport as Transport, { timeout });
      connected.catch(() => {});
      await Promise.race([connected, late]);
      return this;
    } catch (error) {
      this.#over = true;
      this.#client.close().catch(() => {});
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
        id && this.#answered(Number(id), reason, isResumable)
      );
      return await fetch(url, init, watch);
    }
    if (init.method === "DELETE") return await fetch(url, init);
    const pause = this.#streamOpened + STREAM_INTERVAL_MS - performance.now();
    this.#streamOpened = performance.now() + Math.max(0, pause);
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    const isAgain = this.#streams++ > 0;
    const response = await fetch(url, init, new StreamWatch());
    if (isAgain && response.ok) this.#events.reopened();
    return response;
  }

  /** The answer's bytes are over: if it was not in them, nobody has to wait until time is up. */
  #answered(id: number, reason: string, isResumable: boolean): void {
    if (isResumable || this.#transport instanceof SSEClientTransport) return;
    this.#ended.push({ id, reason, since: performance.now() });
    // One timer for all that end meanwhile: nearly every answer is in its bytes.
    if (this.#ended.length === 1) setTimeout(() => this.#failUnanswered(), ANSWER_GRACE_MS);
  }

  #failUnanswered(): void {
    const until = performance.now() - ANSWER_GRACE_MS;
    const ended = this.#ended.filter(({ since }) => since <= until);
    this.#ended = this.#ended.filter(({ since }) => since > until);
    if (this.#ended.length > 0) setTimeout(() => this.#failUnanswered(), ANSWER_GRACE_MS);
    for (const { id, reason } of ended) {
      if (!this.#pending.has(id)) continue;
      const error = { code: ErrorCode.InternalError, message: reason };
      (this.#transport as Transport).onmessage?.({ jsonrpc: "2.0", id, error });
    }
  }

  #failed(error: Error): void {
    const isStream = this.#transport instanceof SSEClientTransport && error.name === "SseError";
    if (isStream || error.constructor.name === "SseError" || STREAM_GIVEN_UP.test(error.message)) {
      this.#lose(error);
    } else if (!this.#over) this.#events.warned(error);
  }

  #lose(error: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#client.close().catch(() => {});
    this.#events.lost(error);
  }
}
