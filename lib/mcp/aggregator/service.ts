/** The nine methods (spec.md, "Aggregator protocol") over all servers. */
import { type AggregatorDefinition, readDefinitions } from "../definition.ts";
import type { Kind } from "../entry.ts";
import { CALL_TIMEOUT_MS, CONNECT_TIMEOUT_MS, LINE_BYTES_MAX, REQUEST_TIMEOUT_MS } from "../limit.ts";
import { splitName, splitUri } from "../name.ts";
import { byteLength } from "../ndjson.ts";
import type { Outbound } from "../outbound/mod.ts";
import { isMethod, PARAMS, type RequestLine } from "../protocol.ts";
import { foreignText } from "../text.ts";
import { fitting, resultLine } from "./answer.ts";
import type { EntryText } from "./catalogue.ts";
import { isObject } from "./listing.ts";
import type { Log } from "./log.ts";
import { Server } from "./server.ts";

/** Milliseconds that servers get. */
export interface Timeouts {
  connect: number;
  request: number;
  call: number;
}
const TIMEOUTS: Timeouts = {
  connect: CONNECT_TIMEOUT_MS,
  request: REQUEST_TIMEOUT_MS,
  call: CALL_TIMEOUT_MS,
};
/** Room that a page leaves on its line for the rest of the answer. */
const PAGE_BYTES = LINE_BYTES_MAX - 256;
/** Changes that come together are told together. */
const CHANGED_AFTER_MS = 20;

export interface ServiceOptions {
  outbound: Outbound;
  log: Log;
  timeouts?: Timeouts;
}

export class Service {
  readonly #outbound: Outbound;
  readonly #log: Log;
  readonly #timeouts: Timeouts;
  readonly #running = new Map<number, AbortController>();
  #servers = new Map<string, Server>();
  #ready: Promise<unknown> = Promise.resolve();
  #refreshing: Promise<unknown> = Promise.resolve();
  #changed?: Set<Kind>;

  constructor({ outbound, log, timeouts = TIMEOUTS }: ServiceOptions) {
    this.#outbound = outbound;
    this.#log = log;
    this.#timeouts = timeouts;
    outbound.onAbort = (id) => this.#running.get(id)?.abort(new DOMException("cancelled", "AbortError"));
  }

  /** Begins with these definitions: the first line. */
  start(value: unknown): void {
    this.#connectAll(this.#read(value));
  }

  /**
   * The answer to a request as a line.
   *
   * @throws Error whose message is the error of the answer
   */
  async answer({ id, method, params }: RequestLine): Promise<string> {
    if (!isMethod(method)) throw new Error(`there is no method "${foreignText(method, 64)}"`);
    const read = PARAMS[method].safeParse(params);
    if (!read.success) {
      const { path, message } = read.error.issues[0];
      throw new Error(`the params of ${method} do not fit: ${[...path, foreignText(message)].join(" ")}`);
    }
    const given = read.data as any;
    switch (method) {
      case "list_servers":
        await this.#ready;
        return this.#listed(id, "servers", this.#statuses(), given?.cursor);
      case "list_tools":
        return await this.#list(id, "tools", given?.cursor);
      case "list_resources":
        return await this.#list(id, "resources", given?.cursor);
      case "list_prompts":
        return await this.#list(id, "prompts", given?.cursor);
      case "call_tool":
        return resultLine(id, await this.#call(id, given));
      case "read_resource":
        return resultLine(id, await this.#readResource(id, given.uri));
      case "get_prompt":
        return resultLine(id, await this.#getPrompt(id, given));
      case "refresh":
        await this.#refresh(given.servers);
        return JSON.stringify({ id, ok: true });
      case "shutdown":
        await this.close();
        return JSON.stringify({ id, ok: true });
    }
  }

  /** Disconnects from every server; what they still owe is answered with an error. */
  async close(): Promise<void> {
    const servers = [...this.#servers.values()];
    this.#servers = new Map();
    await Promise.all(servers.map((server) => server.close()));
  }

  #read(value: unknown): AggregatorDefinition[] {
    const read = readDefinitions(value);
    if (!read) this.#log("the definitions are no array; no server is connected");
    for (const problem of read?.problems ?? []) this.#log(problem);
    return read?.definitions ?? [];
  }

  #connectAll(definitions: AggregatorDefinition[]): void {
    this.#servers = new Map(definitions.map((definition) => [
      definition.name,
      new Server(definition, {
        fetch: this.#outbound.fetchFor(definition.name),
        log: this.#log,
        connectTimeout: this.#timeouts.connect,
        changed: (kinds) => this.#tellChanged(kinds),
      }),
    ]));
    const servers = [...this.#servers.values()];
    for (const { definition } of servers) {
      if (definition.enabled && definition.unsupported_stdio) {
        this.#log(`server "${definition.name}" is skipped: stdio servers are not supported`);
      }
    }
    this.#ready = Promise.all(servers.map(({ ready }) => ready));
  }

  /** One after another: disconnect all, replace, connect. */
  #refresh(servers: unknown[]): Promise<void> {
    const refreshed = this.#refreshing.then(async () => {
      await this.close();
      this.#connectAll(this.#read(servers));
      await this.#ready;
      this.#tellChanged(["tools", "resources", "prompts"]);
    });
    this.#refreshing = refreshed.catch(() => {});
    return refreshed;
  }

  async #list(id: number, kind: Kind, cursor: number | undefined): Promise<string> {
    await this.#ready;
    return this.#listed(
      id,
      kind,
      [...this.#servers.values()].flatMap(({ catalogue }) => [...catalogue.entries(kind)]),
      cursor,
    );
  }

  #statuses(): EntryText[] {
    return [...this.#servers.values()].map((server) => {
      const text = JSON.stringify(server.status());
      return { text, bytes: byteLength(text) };
    });
  }

  /** A list on one line; with a cursor one page of it, and where the next begins. */
  #listed(id: number, field: string, entries: EntryText[], cursor: number | undefined): string {
    let at = cursor ?? 0;
    let bytes = 0;
    const first = at;
    while (at < entries.length && (at === first || bytes + entries[at].bytes < PAGE_BYTES)) {
      bytes += entries[at++].bytes + 1;
    }
    if (cursor === undefined && at < entries.length) {
      throw new Error(
        `the list of ${field} does not fit on one line; ask for pages, beginning with "cursor": 0`,
      );
    }
    const texts = entries.slice(first, at).map(({ text }) => text).join(",");
    return fitting(
      id,
      `{"id":${id},"${field}":[${texts}]${at < entries.length ? `,"next_cursor":${at}` : ""}}`,
    );
  }

  async #call(id: number, { name, arguments: args }: { name: string; arguments?: Record<string, unknown> }) {
    const { server, name: tool } = this.#route(splitName(name), name);
    await server.ready;
    // What the server has not listed, or what was left out, nobody has looked at.
    if (server.connected && !server.catalogue.has("tools", tool)) {
      throw new Error(`server "${server.definition.name}" has no tool "${foreignText(tool)}"`);
    }
    const result = await this.#request(
      id,
      server,
      "tools/call",
      { name: tool, arguments: args ?? {} },
      this.#timeouts.call,
    );
    if (result.content === undefined) result.content = [];
    if (!Array.isArray(result.content)) {
      throw new Error(`server "${server.definition.name}": its answer is no tool result`);
    }
    return result;
  }

  async #readResource(id: number, uri: string) {
    const { server, name } = this.#route(splitUri(uri), uri);
    const result = await this.#request(id, server, "resources/read", { uri: name }, this.#timeouts.request);
    if (Array.isArray(result.contents)) return result;
    throw new Error(`server "${server.definition.name}": its answer is no resource`);
  }

  async #getPrompt(
    id: number,
    { name, arguments: args }: { name: string; arguments?: Record<string, unknown> },
  ) {
    const { server, name: prompt } = this.#route(splitName(name), name);
    const params = { name: prompt, arguments: args ?? {} };
    const result = await this.#request(id, server, "prompts/get", params, this.#timeouts.request);
    if (Array.isArray(result.messages)) return result;
    throw new Error(`server "${server.definition.name}": its answer is no prompt`);
  }

  #route(routed: { server: string; name: string } | undefined, whole: string) {
    const server = routed && this.#servers.get(routed.server);
    if (server) return { server, name: routed.name };
    if (routed) throw new Error(`there is no server "${foreignText(routed.server)}"`);
    throw new Error(`"${foreignText(whole)}" names no server`);
  }

  async #request(
    id: number,
    server: Server,
    method: string,
    params: Record<string, unknown>,
    timeout: number,
  ) {
    const { name, enabled } = server.definition;
    if (!enabled) throw new Error(`server "${name}" is disabled`);
    const abort = new AbortController();
    this.#running.set(id, abort);
    try {
      const result = await server.request(method, params, {
        timeout,
        signal: abort.signal,
        ...(method === "tools/call" && { onprogress: (progress) => this.#outbound.progress(id, progress) }),
      });
      if (isObject(result)) return result;
      throw new Error("its answer is no result");
    } catch (error) {
      throw new Error(`server "${name}": ${(error as Error).message}`, { cause: error });
    } finally {
      this.#running.delete(id);
    }
  }

  #tellChanged(kinds: Kind[]): void {
    if (!this.#changed) {
      this.#changed = new Set();
      setTimeout(() => {
        this.#outbound.changed(this.#changed!);
        this.#changed = undefined;
      }, CHANGED_AFTER_MS);
    }
    for (const kind of kinds) this.#changed.add(kind);
  }
}
