/** One MCP server as the aggregator keeps it: connected, lost, tried again. */
import type { AggregatorDefinition } from "../definition.ts";
import type { Kind, ServerStatus } from "../entry.ts";
import { RECONNECT_MAX_MS, RECONNECT_MIN_MS, RELIST_INTERVAL_MS } from "../limit.ts";
import type { ServerFetch } from "../outbound/mod.ts";
import { Catalogue } from "./catalogue.ts";
import { Connection, type RequestOptions } from "./connection.ts";
import { listAll } from "./listing.ts";
import type { Log } from "./log.ts";
import { httpStatus, problemText } from "./problem.ts";

const KINDS: readonly Kind[] = ["tools", "resources", "prompts"];
const LIST_CHANGED = /^notifications\/(tools|resources|prompts)\/list_changed$/;

/** What a server needs of the aggregator. */
export interface ServerContext {
  fetch: ServerFetch;
  log: Log;
  /** milliseconds */
  connectTimeout: number;
  changed(kinds: Kind[]): void;
}

export class Server {
  readonly definition: AggregatorDefinition;
  readonly catalogue: Catalogue;
  /** settles when the first attempt to connect is over, however it went */
  readonly ready: Promise<void>;
  readonly #context: ServerContext;
  readonly #stale = new Set<Kind>();
  #connection?: Connection;
  #connecting?: Promise<void>;
  #problem?: string;
  #failures = 0;
  #retry?: ReturnType<typeof setTimeout>;
  #relisting = false;
  #checking = false;
  #closed = false;

  constructor(definition: AggregatorDefinition, context: ServerContext) {
    this.definition = definition;
    this.catalogue = new Catalogue(definition.name);
    this.#context = context;
    this.#problem = !definition.enabled
      ? undefined
      : definition.unsupported_stdio
      ? "stdio servers are not supported: only servers that are reached by HTTP are"
      : undefined;
    this.ready = definition.enabled && !definition.unsupported_stdio ? this.#connect() : Promise.resolve();
  }

  get connected(): boolean {
    return this.#connection !== undefined;
  }

  status(): ServerStatus {
    const { name, url, enabled, source } = this.definition;
    return {
      name,
      url,
      enabled,
      source,
      connected: this.connected,
      tool_count: this.catalogue.count("tools"),
      resource_count: this.catalogue.count("resources"),
      prompt_count: this.catalogue.count("prompts"),
      ...(this.#problem !== undefined && { last_error: this.#problem }),
    };
  }

  /**
   * The server's answer. A request that it turned away because it forgot the session is sent again in a new one.
   *
   * @throws Error with a sentence about what went wrong
   */
  async request(method: string, params: Record<string, unknown>, options: RequestOptions) {
    await this.ready;
    const connection = this.#connection;
    if (!connection) throw new Error(`is not connected${this.#problem ? `: ${this.#problem}` : ""}`);
    try {
      return await connection.request(method, params, options);
    } catch (error) {
      const status = httpStatus(error);
      const problem = problemText(error);
      // The request did not get through; others that are under way may have.
      if (error instanceof TypeError) this.#check(connection);
      // 404 is how a server says that it knows the session no more; some say it with 400 and a word about it.
      const isForgotten = status === 404 || (status === 400 && /session/i.test(problem));
      if (isForgotten && this.#connection === connection) this.#renew(problem);
      if (status !== 404) throw new Error(problem, { cause: error });
    }
    // 404 says that nothing was done (MCP, "Session Management").
    await this.#connecting;
    if (!this.#connection) throw new Error(`is not connected: ${this.#problem}`);
    return await this.#connection.request(method, params, options).catch((error) => {
      throw new Error(problemText(error), { cause: error });
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  #connect(): Promise<void> {
    return this.#connecting ??= this.#attempt().finally(() => this.#connecting = undefined);
  }

  async #attempt(): Promise<void> {
    const { fetch, connectTimeout, log } = this.#context;
    const began = performance.now();
    let connection: Connection | undefined;
    try {
      connection = await Connection.open(this.definition, fetch, {
        notified: (method) => this.#notified(method),
        // While its stream was away it could not say what changed.
        reopened: () => this.#outdated(KINDS),
        lost: (error) => {
          if (connection && this.#connection === connection) this.#lose(problemText(error));
        },
        warned: (error) => log(`server "${this.definition.name}": ${problemText(error)}`),
      }, connectTimeout);
      const opened = connection;
      const left = Math.max(1, connectTimeout - (performance.now() - began));
      const changed = await Promise.all(KINDS.map((kind) => this.#list(opened, kind, left)));
      if (this.#closed) return await connection.close();
      this.#connection = connection;
      this.#problem = undefined;
      this.#failures = 0;
      this.#changed(KINDS.filter((_, at) => changed[at]));
      if (this.#stale.size > 0) this.#relist();
    } catch (error) {
      connection?.close();
      if (!this.#closed) this.#failed(problemText(error));
    }
  }

  #failed(problem: string): void {
    if (problem !== this.#problem) {
      this.#context.log(`server "${this.definition.name}" is not connected: ${problem}`);
    }
    this.#problem = problem;
    this.#later(Math.min(RECONNECT_MAX_MS, RECONNECT_MIN_MS * 2 ** this.#failures++));
  }

  /** Whether it is there at all, after a request that did not reach it. */
  async #check(connection: Connection): Promise<void> {
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

  /** Its catalogue stays as it was: a short absence is not worth a change of what the agent sees. */
  #lose(problem: string): void {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#problem = problem;
    if (this.#closed) return;
    connection?.close();
    this.#context.log(`server "${this.definition.name}" was lost: ${problem}`);
    this.#later(RECONNECT_MIN_MS);
  }

  /** Begins a new session; what else is under way in the old one gets its own answer. */
  #renew(problem: string): void {
    this.#connection?.retire();
    this.#connection = undefined;
    this.#problem = problem;
    this.#connect();
  }

  #later(pause: number): void {
    clearTimeout(this.#retry);
    // Servers that went down together do not come back together.
    this.#retry = setTimeout(() => this.#connect(), pause * (0.75 + Math.random() / 2));
  }

  #notified(method: string): void {
    const kind = LIST_CHANGED.exec(method)?.[1] as Kind | undefined;
    if (kind) this.#outdated([kind]);
  }

  #outdated(kinds: readonly Kind[]): void {
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
      this.#changed(kinds.filter((_, at) => changed[at]));
      // A server that says so without end is not followed without end.
      await new Promise((resolve) => setTimeout(resolve, RELIST_INTERVAL_MS));
    }
    this.#relisting = false;
  }

  /** @returns whether it is another list than before; one that cannot be had stays as it was */
  async #list(connection: Connection, kind: Kind, timeout: number): Promise<boolean> {
    const { log } = this.#context;
    const who = `server "${this.definition.name}"`;
    if (!connection.has(kind)) return this.catalogue.replace(kind, []).changed;
    try {
      const { changed, problems } = this.catalogue.replace(kind, await listAll(connection, kind, timeout));
      for (const problem of problems) log(`${who}: ${problem}`);
      return changed;
    } catch (error) {
      log(`${who} does not list its ${kind}: ${problemText(error)}`);
      return false;
    }
  }

  #changed(kinds: Kind[]): void {
    if (kinds.length > 0 && !this.#closed) this.#context.changed(kinds);
  }
}
