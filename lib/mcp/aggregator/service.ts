/**
 * The aggregator protocol, served over a pair of pipes for all servers (docs/design/contracts/08-mcp.md §8,
 * "Aggregator protocol").
 */
import { ignore } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import type { z } from "zod";
import { type AggregatorDefinition, readDefinitions } from "../definition.ts";
import type { EntryKind, ListKind } from "../schema.ts";
import {
  CALL_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  LINE_BYTES_MAX,
  PROGRAM_CONNECT_TIMEOUT_MS,
  REQUEST_TIMEOUT_MS,
  REQUESTS_MAX,
} from "../limit.ts";
import { foreignText, type QualifiedName, splitName, splitUri, STDIO_UNSUPPORTED } from "../name.ts";
import type { Outbound } from "../outbound/mod.ts";
import {
  byteLength,
  errorLine,
  fitLine,
  isMethod,
  LineWriter,
  type Method,
  PARAMS,
  partLines,
  readLines,
  readRequest,
  type RequestLine,
  resultLine,
  valueOf,
} from "../protocol.ts";
import type { EntryText } from "./catalogue.ts";
import type { Log } from "./problem.ts";
import { Server } from "./server.ts";

interface Pipes {
  input: { read(into: Uint8Array): Promise<number | null> };
  output: { write(bytes: Uint8Array): Promise<unknown> };
}

/**
 * Serves until `shutdown` or the end of the input, then disconnects from every server. Requests that are
 * pending then are answered with an error, before `shutdown` is.
 */
export async function serveAggregator({ input, output }: Pipes, options: ServiceOptions): Promise<void> {
  const { log, debug } = options;
  const service = new Service(options);
  const writer = new LineWriter(output);
  const pending = new PendingAnswers(writer);
  let started = false;
  for await (const line of readLines(input)) {
    if ("problem" in line) {
      log(`skipped: ${line.problem}`);
      if (!started) service.start([]);
      started = true;
      continue;
    }
    if (!started) {
      started = true;
      service.start(valueOf(line.text));
      continue;
    }
    const request = readRequest(line.text);
    if (request) debug?.(`request ${request.method}`);
    if (!request) log("skipped a malformed line");
    else if (request.method === "shutdown") {
      await pending.failAll();
      const answer = await answerOf(service, request);
      writer.write(answer);
      return await writer.flush();
    } else if (pending.count >= REQUESTS_MAX) {
      writer.write(errorLine(request.id, `${REQUESTS_MAX} requests are running, the limit`));
    } else pending.add(request.id, answerOf(service, request));
  }
  await pending.failAll();
  await service.close();
  await writer.flush();
}

/** Answers that are not written yet. */
class PendingAnswers {
  readonly #writer: LineWriter;
  readonly #requests = new Set<{ id: number }>();

  constructor(writer: LineWriter) {
    this.#writer = writer;
  }

  get count(): number {
    return this.#requests.size;
  }

  /** Writes an answer when it is there, unless the request has failed by then. */
  add(id: number, answer: Promise<string>): void {
    const request = { id };
    this.#requests.add(request);
    answer.then((line) => {
      if (!this.#requests.delete(request)) return;
      for (const part of partLines(id, line)) this.#writer.write(part);
    });
  }

  /** Answers every request with an error, except requests answered in this turn of the event loop. */
  async failAll(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    for (const { id } of this.#requests) {
      this.#writer.write(errorLine(id, "the MCP aggregator is shutting down"));
    }
    this.#requests.clear();
  }
}

async function answerOf(service: Service, request: RequestLine): Promise<string> {
  try {
    return await service.answer(request);
  } catch (error) {
    return errorLine(request.id, (error as Error).message);
  }
}

/** Timeouts of servers in `ms`. */
export interface Timeouts {
  connect: number;
  /** for the program of a stdio server to connect */
  program: number;
  request: number;
  call: number;
}
const TIMEOUTS: Timeouts = {
  connect: CONNECT_TIMEOUT_MS,
  program: PROGRAM_CONNECT_TIMEOUT_MS,
  request: REQUEST_TIMEOUT_MS,
  call: CALL_TIMEOUT_MS,
};
/** `ms` for which changes are collected before they are announced together. */
const CHANGED_AFTER_MS = 20;

/** A request whose parameters are checked. */
type Call = { [M in Method]: { method: M; args: z.output<typeof PARAMS[M]> } }[Method];

interface ServiceOptions {
  outbound: Outbound;
  log: Log;
  /** receives the method of each request */
  debug?: Log;
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
  #changed?: Set<EntryKind>;

  constructor({ outbound, log, timeouts = TIMEOUTS }: ServiceOptions) {
    this.#outbound = outbound;
    this.#log = log;
    this.#timeouts = timeouts;
    outbound.onAbort = (id) => this.#running.get(id)?.abort(new DOMException("cancelled", "AbortError"));
  }

  /** Connects to the servers of the first line. */
  start(value: unknown): void {
    this.#connectAll(this.#read(value));
  }

  /**
   * Answers a request with a line, which is longer than one of the protocol
   * only where the parent takes parts.
   *
   * @throws Error with the error of the answer as its message
   */
  async answer({ id, method, params, parts }: RequestLine): Promise<string> {
    if (!isMethod(method)) throw new Error(`unknown method "${foreignText(method, 64)}"`);
    const parsed = PARAMS[method].safeParse(params);
    if (!parsed.success) {
      const { path, message } = parsed.error.issues[0];
      throw new Error(`invalid params of ${method}: ${[...path, foreignText(message)].join(" ")}`);
    }
    return await this.#answer(id, { method, args: parsed.data } as Call, parts);
  }

  async #answer(id: number, { method, args }: Call, parts: boolean): Promise<string> {
    switch (method) {
      case "list_servers":
        await this.#ready;
        return listLine(id, "servers", this.#statuses(), args?.cursor);
      case "list_tools":
        return await this.#list(id, "tools", args?.cursor);
      case "list_resources":
        return await this.#list(id, "resources", args?.cursor);
      case "list_templates":
        return await this.#list(id, "templates", args?.cursor);
      case "list_prompts":
        return await this.#list(id, "prompts", args?.cursor);
      case "call_tool":
        return resultLine(id, await this.#callTool(id, args), parts);
      case "read_resource":
        return resultLine(id, await this.#readResource(id, args.uri), parts);
      case "get_prompt":
        return resultLine(id, await this.#getPrompt(id, args), parts);
      case "complete":
        return resultLine(id, await this.#complete(id, args), parts);
      case "subscribe":
      case "unsubscribe":
        return resultLine(id, await this.#changeSubscription(id, method, args.uri));
      case "await_server":
        return resultLine(id, await this.#awaitServer(id, args.name));
      case "refresh":
        await this.#refresh(args.servers);
        return JSON.stringify({ id, ok: true });
      case "shutdown":
        await this.close();
        return JSON.stringify({ id, ok: true });
    }
  }

  /** Disconnects from every server; requests in progress fail. */
  async close(): Promise<void> {
    const servers = [...this.#servers.values()];
    this.#servers = new Map();
    await Promise.all(servers.map((server) => server.close()));
  }

  #read(value: unknown): AggregatorDefinition[] {
    const list = readDefinitions(value);
    if (!list) this.#log("the definitions are not an array; no server is connected");
    for (const problem of list?.problems ?? []) this.#log(problem);
    return list?.definitions ?? [];
  }

  #connectAll(definitions: AggregatorDefinition[]): void {
    this.#servers = new Map(definitions.map((definition) => [
      definition.name,
      new Server(definition, {
        fetch: this.#outbound.fetchFor(definition.name),
        log: this.#log,
        connectTimeout: this.#timeouts.connect,
        programTimeout: this.#timeouts.program,
        onChanged: (kinds) => this.#announce(kinds),
        onNotice: (notice) => this.#outbound.notice(notice),
        onRequest: (request, signal) => this.#outbound.ask(request, signal),
      }),
    ]));
    const servers = [...this.#servers.values()];
    for (const { definition } of servers) {
      if (definition.enabled && definition.unsupported_stdio) {
        this.#log(`server "${definition.name}" is skipped: ${STDIO_UNSUPPORTED}`);
      }
    }
    this.#ready = Promise.all(servers.map(({ ready }) => ready));
  }

  /** Disconnects all servers, then connects the new ones; refreshes run one after another. */
  #refresh(servers: unknown[]): Promise<void> {
    const refreshed = this.#refreshing.then(async () => {
      await this.close();
      this.#connectAll(this.#read(servers));
      await this.#ready;
      this.#announce(["tools", "resources", "prompts"]);
    });
    this.#refreshing = refreshed.catch(ignore("reported to the refresh that failed"));
    return refreshed;
  }

  async #list(id: number, kind: ListKind, cursor: number | undefined): Promise<string> {
    await this.#ready;
    return listLine(
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

  async #callTool(
    id: number,
    { name, arguments: args }: z.output<typeof PARAMS.call_tool>,
  ) {
    const { server, name: tool } = this.#route(splitName(name), name);
    const result = await this.#run(id, server, async (signal) => {
      await server.settled(signal);
      // A tool that is not in the catalogue was never checked.
      if (server.connected && !server.catalogue.has("tools", tool)) {
        throw new Error(`it has no tool "${foreignText(tool)}"`);
      }
      return await server.request("tools/call", { name: tool, arguments: args ?? {} }, {
        timeout: this.#timeouts.call,
        signal,
        onprogress: (progress) => this.#outbound.progress(id, progress),
      });
    });
    if (result.content === undefined) result.content = [];
    if (!Array.isArray(result.content)) {
      throw new Error(`server "${server.definition.name}": the response is not a tool result`);
    }
    return result;
  }

  /** Waits until a server has connected, or its attempt has failed. */
  async #awaitServer(id: number, name: string) {
    const server = this.#servers.get(name);
    if (!server) throw new Error(`unknown server "${foreignText(name)}"`);
    return await this.#run(id, server, async (signal) => {
      await server.settled(signal);
      return { connected: server.connected };
    });
  }

  async #readResource(id: number, uri: string) {
    const { server, name } = this.#route(splitUri(uri), uri);
    const result = await this.#request(id, server, "resources/read", { uri: name }, this.#timeouts.request);
    if (Array.isArray(result.contents)) return result;
    throw new Error(`server "${server.definition.name}": the response is not a resource`);
  }

  async #getPrompt(
    id: number,
    { name, arguments: args }: z.output<typeof PARAMS.call_tool>,
  ) {
    const { server, name: prompt } = this.#route(splitName(name), name);
    const params = { name: prompt, arguments: args ?? {} };
    const result = await this.#request(id, server, "prompts/get", params, this.#timeouts.request);
    if (Array.isArray(result.messages)) return result;
    throw new Error(`server "${server.definition.name}": the response is not a prompt`);
  }

  async #complete(
    id: number,
    { ref: { type, name: namespaced }, argument, context }: z.output<typeof PARAMS.complete>,
  ) {
    const isPrompt = type === "ref/prompt";
    const { server, name } = this.#route((isPrompt ? splitName : splitUri)(namespaced), namespaced);
    const params = {
      ref: isPrompt ? { type, name } : { type, uri: name },
      argument,
      ...(context && { context }),
    };
    const result = await this.#request(id, server, "completion/complete", params, this.#timeouts.request);
    if (isObject(result.completion) && Array.isArray(result.completion.values)) return result;
    throw new Error(`server "${server.definition.name}": the response is not a completion`);
  }

  async #changeSubscription(id: number, action: "subscribe" | "unsubscribe", uri: string) {
    const { server, name } = this.#route(splitUri(uri), uri);
    return await this.#run(
      id,
      server,
      (signal) => server[action](name, { timeout: this.#timeouts.request, signal }),
    );
  }

  #route(qualified: QualifiedName | undefined, namespaced: string) {
    const server = qualified && this.#servers.get(qualified.server);
    if (server) return { server, name: qualified.name };
    if (qualified) throw new Error(`unknown server "${foreignText(qualified.server)}"`);
    throw new Error(`"${foreignText(namespaced)}" does not name a server`);
  }

  async #request(
    id: number,
    server: Server,
    method: string,
    params: Record<string, unknown>,
    timeout: number,
  ) {
    return await this.#run(id, server, (signal) => server.request(method, params, { timeout, signal }));
  }

  /** Runs a request of a server that the parent can cancel. @throws Error that names the server */
  async #run(
    id: number,
    { definition: { name, enabled } }: Server,
    request: (signal: AbortSignal) => Promise<Record<string, unknown>>,
  ) {
    if (!enabled) throw new Error(`server "${name}" is disabled`);
    const abort = new AbortController();
    this.#running.set(id, abort);
    try {
      const result = await request(abort.signal);
      if (isObject(result)) return result;
      throw new Error("the response is not a result");
    } catch (error) {
      throw new Error(`server "${name}": ${(error as Error).message}`, { cause: error });
    } finally {
      this.#running.delete(id);
    }
  }

  /** Announces changed lists to the parent. */
  #announce(kinds: EntryKind[]): void {
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

// Lists as lines of the aggregator protocol.

/** `bytes` of the entries of a page, which leaves room for the rest of its line. */
const PAGE_BYTES = LINE_BYTES_MAX - 256;

/** Answers with a whole list, or with one page and the next cursor when there is a cursor. */
function listLine(
  id: number,
  field: string,
  entries: EntryText[],
  cursor: number | undefined,
): string {
  let at = cursor ?? 0;
  let bytes = 0;
  const first = at;
  while (at < entries.length && (at === first || bytes + entries[at].bytes < PAGE_BYTES)) {
    bytes += entries[at++].bytes + 1;
  }
  if (cursor === undefined && at < entries.length) {
    throw new Error(
      `the list of ${field} does not fit on one line; request pages, starting with "cursor": 0`,
    );
  }
  const texts = entries.slice(first, at).map(({ text }) => text).join(",");
  return fitLine(
    id,
    `{"id":${id},"${field}":[${texts}]${at < entries.length ? `,"next_cursor":${at}` : ""}}`,
  );
}
