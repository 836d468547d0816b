/** One MCP server of the aggregator: connects, reconnects, keeps its lists. */
import { allOf } from "../../base/list/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import { type AggregatorDefinition, isServed } from "../definition.ts";
import type { EntryKind, ListKind, RequestAnswerer, ServerNotice, ServerStatus } from "../schema.ts";
import { NOTICE_BYTES_MAX, RECONNECT_MAX_MS, RECONNECT_MIN_MS, RELIST_INTERVAL_MS } from "../limit.ts";
import type { ServerFetch } from "../outbound/mod.ts";
import { listAll, ServerCatalogue } from "./catalogue.ts";
import { type RequestOptions, ServerConnection } from "./connection.ts";
import { httpStatus, isClosed, isUnknownMethod, type Log, problemText } from "./problem.ts";
import { namespacedUri, STDIO_UNSUPPORTED } from "../name.ts";
import { byteLength } from "../protocol.ts";

const KINDS = allOf<ListKind>()("tools", "resources", "templates", "prompts");
const LIST_CHANGED = /^notifications\/(tools|resources|prompts)\/list_changed$/;

/** The aggregator's part in a server. */
export interface ServerContext {
  fetch: ServerFetch;
  log: Log;
  /** `ms` */
  connectTimeout: number;
  /** `ms` */
  programTimeout: number;
  onChanged(kinds: EntryKind[]): void;
  onNotice(notice: ServerNotice): void;
  onRequest: RequestAnswerer;
}

export class Server {
  readonly definition: AggregatorDefinition;
  readonly catalogue: ServerCatalogue;
  /**
   * settles after the first attempt to connect, also when it failed; for a program
   * that starts slowly, before its end
   */
  readonly ready: Promise<void>;
  readonly #context: ServerContext;
  readonly #stale = new Set<ListKind>();
  /** URIs as the server knows them */
  readonly #subscriptions = new Set<string>();
  #connection?: ServerConnection;
  #connecting?: Promise<void>;
  #problem?: string;
  /** of lists that could not be read, although the server is connected */
  readonly #listProblems = new Map<ListKind, string>();
  #failures = 0;
  #retry?: ReturnType<typeof setTimeout>;
  #relisting = false;
  #checking = false;
  #closed = false;

  constructor(definition: AggregatorDefinition, context: ServerContext) {
    this.definition = definition;
    this.catalogue = new ServerCatalogue(definition.name);
    this.#context = context;
    this.#problem = definition.enabled && definition.unsupported_stdio ? STDIO_UNSUPPORTED : undefined;
    this.ready = isServed(definition) ? this.#begin() : Promise.resolve();
  }

  get connected(): boolean {
    return this.#connection !== undefined;
  }

  /** Waits for the attempt to connect that is under way, however long a program takes to start. */
  async settled(signal?: AbortSignal): Promise<void> {
    if (!this.#connection) await this.#connecting;
    signal?.throwIfAborted();
  }

  status(): ServerStatus {
    const { name, url, enabled, source } = this.definition;
    const problem = this.#problem ?? this.#listProblems.values().next().value;
    return {
      name,
      url,
      enabled,
      source,
      connected: this.connected,
      tool_count: this.catalogue.count("tools"),
      resource_count: this.catalogue.count("resources"),
      prompt_count: this.catalogue.count("prompts"),
      ...(problem !== undefined && { last_error: problem }),
    };
  }

  /**
   * Sends a request. When the server has forgotten the session, the request is repeated in a new one.
   *
   * @throws Error with the reason as its message
   */
  async request(method: string, params: Record<string, unknown>, options: RequestOptions) {
    await this.settled(options.signal);
    const connection = this.#connection;
    if (!connection) throw new Error(`not connected${this.#problem ? `: ${this.#problem}` : ""}`);
    try {
      return await connection.request(method, params, options);
    } catch (error) {
      const status = httpStatus(error);
      const isLost = this.#connection !== connection && isClosed(error);
      const problem = isLost && this.#problem ? this.#problem : problemText(error);
      // The request was not delivered; the connection may still work for others.
      if (error instanceof TypeError) this.#ping(connection);
      // A server reports an unknown session with 404; some use 400 with a message about it.
      const isForgotten = status === 404 || (status === 400 && /session/i.test(problem));
      if (isForgotten && this.#connection === connection) this.#renew(problem);
      if (status !== 404) throw new Error(problem, { cause: error });
    }
    // After 404 the request had no effect (MCP, "Session Management").
    await this.#connecting;
    if (!this.#connection) throw new Error(`not connected: ${this.#problem}`);
    return await this.#connection.request(method, params, options).catch((error) => {
      throw new Error(problemText(error), { cause: error });
    });
  }

  /** Subscribes to a resource, also in later connections. @throws Error as {@linkcode request} */
  async subscribe(uri: string, options: RequestOptions) {
    const result = await this.request("resources/subscribe", { uri }, options);
    this.#subscriptions.add(uri);
    return result;
  }

  async unsubscribe(uri: string, options: RequestOptions) {
    this.#subscriptions.delete(uri);
    return await this.request("resources/unsubscribe", { uri }, options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  /**
   * The first attempt. A program may have to be fetched: lists wait no longer for
   * that than for a server over HTTP.
   */
  async #begin(): Promise<void> {
    const connected = this.#connect();
    if (!this.definition.stdio) return await connected;
    await Promise.race([connected, backgroundDelay(this.#context.connectTimeout)]);
    if (!this.connected) this.#problem ??= "its program is still starting";
  }

  #connect(): Promise<void> {
    return this.#connecting ??= this.#attempt().finally(() => this.#connecting = undefined);
  }

  async #attempt(): Promise<void> {
    const { fetch, connectTimeout, programTimeout, log } = this.#context;
    const timeout = this.definition.stdio ? programTimeout : connectTimeout;
    const began = performance.now();
    let connection: ServerConnection | undefined;
    try {
      connection = await ServerConnection.open(this.definition, fetch, {
        onNotification: (method, params) => this.#handleNotification(method, params),
        onRequest: (method, params, signal) => {
          return this.#context.onRequest({ server: this.definition.name, method, params }, signal);
        },
        // The server could not announce changes while its stream was interrupted.
        onReopen: () => this.#markStale(KINDS),
        onLoss: (error) => {
          if (connection && this.#connection === connection) this.#lose(problemText(error));
        },
        onWarning: (error) => log(`server "${this.definition.name}": ${problemText(error)}`),
      }, timeout);
      const current = connection;
      const remaining = Math.max(1, timeout - (performance.now() - began));
      const changed = await Promise.all(KINDS.map((kind) => this.#list(current, kind, remaining)));
      if (this.#closed) return await connection.close();
      this.#connection = connection;
      this.#renewSubscriptions(connection, remaining);
      this.#problem = undefined;
      this.#failures = 0;
      this.#announce(KINDS.filter((_, at) => changed[at]));
      if (this.#stale.size > 0) this.#relist();
    } catch (error) {
      connection?.close();
      if (!this.#closed) this.#handleFailure(problemText(error));
    }
  }

  /** Subscribes again in a new session. Updates meanwhile were missed, so each resource counts as updated. */
  #renewSubscriptions(connection: ServerConnection, timeout: number): void {
    for (const uri of this.#subscriptions) {
      connection.request("resources/subscribe", { uri }, { timeout }).then(
        () => this.#handleNotification(UPDATED, { uri }),
        (error) => this.#context.log(`server "${this.definition.name}": subscribing: ${problemText(error)}`),
      );
    }
  }

  #handleFailure(problem: string): void {
    if (problem !== this.#problem) {
      this.#context.log(`server "${this.definition.name}" is not connected: ${problem}`);
    }
    this.#problem = problem;
    this.#connectAfter(Math.min(RECONNECT_MAX_MS, RECONNECT_MIN_MS * 2 ** this.#failures++));
  }

  /** Checks the connection after a request that was not delivered. */
  async #ping(connection: ServerConnection): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    try {
      await connection.request("ping", {}, { timeout: this.#context.connectTimeout });
    } catch (error) {
      if (this.#connection === connection) this.#lose(problemText(error));
    } finally {
      this.#checking = false;
    }
  }

  /** Reconnects. The catalogue stays: a short interruption does not change the lists that the agent sees. */
  #lose(problem: string): void {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#problem = problem;
    if (this.#closed) return;
    connection?.close();
    this.#context.log(`server "${this.definition.name}" was disconnected: ${problem}`);
    this.#connectAfter(RECONNECT_MIN_MS);
  }

  /** Begins a new session; requests in progress finish in the old one. */
  #renew(problem: string): void {
    this.#connection?.retire();
    this.#connection = undefined;
    this.#problem = problem;
    this.#connect();
  }

  #connectAfter(pause: number): void {
    clearTimeout(this.#retry);
    // Jitter spreads the reconnections of servers that failed together.
    this.#retry = setTimeout(() => this.#connect(), pause * (0.75 + Math.random() / 2));
  }

  #handleNotification(method: string, params: Record<string, unknown>): void {
    const kind = LIST_CHANGED.exec(method)?.[1] as EntryKind | undefined;
    if (kind) this.#markStale(kind === "resources" ? ["resources", "templates"] : [kind]);
    const notice = noticeOf(this.definition.name, method, params);
    const isWanted = method !== UPDATED || this.#subscriptions.has(String(params.uri));
    if (notice && isWanted && !this.#closed) this.#context.onNotice(notice);
  }

  #markStale(kinds: readonly ListKind[]): void {
    for (const kind of kinds) this.#stale.add(kind);
    if (this.#connection && !this.#relisting) this.#relist();
  }

  async #relist(): Promise<void> {
    this.#relisting = true;
    while (this.#stale.size > 0 && this.#connection) {
      const kinds = [...this.#stale];
      this.#stale.clear();
      const connection = this.#connection;
      const changed = await Promise.all(
        kinds.map((kind) => this.#list(connection, kind, this.#context.connectTimeout)),
      );
      this.#announce(kinds.filter((_, at) => changed[at]));
      // Bounds the work for a server that announces changes continuously.
      await new Promise((resolve) => setTimeout(resolve, RELIST_INTERVAL_MS));
    }
    this.#relisting = false;
  }

  /** Fetches a list; one that cannot be fetched stays unchanged. @returns whether the list changed */
  async #list(connection: ServerConnection, kind: ListKind, timeout: number): Promise<boolean> {
    const { log } = this.#context;
    const label = `server "${this.definition.name}"`;
    this.#listProblems.delete(kind);
    if (!connection.has(kind === "templates" ? "resources" : kind)) {
      return this.catalogue.replace(kind, []).changed;
    }
    try {
      const { changed, problems } = this.catalogue.replace(kind, await listAll(connection, kind, timeout));
      for (const problem of problems) log(`${label}: ${problem}`);
      return changed;
    } catch (error) {
      // Templates are no capability of their own: most servers with resources have none.
      if (kind !== "templates" || !isUnknownMethod(error)) {
        const problem = `listing ${kind} failed: ${problemText(error)}`;
        this.#listProblems.set(kind, problem);
        log(`${label}: ${problem}`);
      }
      return false;
    }
  }

  #announce(changed: ListKind[]): void {
    const kinds = new Set(changed.map((kind): EntryKind => kind === "templates" ? "resources" : kind));
    if (kinds.size > 0 && !this.#closed) this.#context.onChanged([...kinds]);
  }
}

// Notifications of servers that are passed on.

const UPDATED = "notifications/resources/updated";
const LOGGED = "notifications/message";

/** @returns `undefined` for any other notification, and for one that is too large */
function noticeOf(
  server: string,
  method: string,
  params: Record<string, unknown>,
): ServerNotice | undefined {
  if (method === UPDATED && typeof params.uri === "string") {
    return { server, method, params: { uri: namespacedUri(server, params.uri) } };
  }
  if (method !== LOGGED) return undefined;
  const { level, logger, data } = params;
  if (byteLength(JSON.stringify(params)) > NOTICE_BYTES_MAX) return undefined;
  return { server, method, params: { level, logger, data } };
}
