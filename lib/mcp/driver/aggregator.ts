/**
 * Driver of the aggregator process in sbx-process (docs/design/contracts/08-mcp.md §8, "Aggregator subprocess
 * lifecycle").
 */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { allOf } from "../../base/list/mod.ts";
import { siblingProgram } from "../../base/spawn/mod.ts";
import { type AggregatorDefinition, isServed } from "../definition.ts";
import type {
  CompletionRequest,
  Entries,
  EntryKind,
  ListKind,
  PromptEntry,
  RequestAnswerer,
  ResourceEntry,
  ResourceTemplateEntry,
  ServerNotice,
  ServerStatus,
  ToolEntry,
} from "../schema.ts";
import { CALL_TIMEOUT_MS, ENTRIES_MAX, REQUEST_TIMEOUT_MS, SERVERS_MAX } from "../limit.ts";
import { foreignText, splitName, STDIO_UNSUPPORTED } from "../name.ts";
import { AggregatorProcess, type CallOptions, channelClosed } from "./process.ts";
import type { CredentialResolver, ServerLogins, StdioStarter } from "../outbound/mod.ts";
import { type PinChange, pinHash } from "../pin/change.ts";
import type { PinStore } from "../pin/store.ts";

/** Name of the aggregator's program. */
const AGGREGATOR = "sbx-mcp-aggregator";
/**
 * First and longest pause in `ms` before a crashed aggregator is restarted; the
 * pause doubles after each crash.
 */
const RESTART_MIN_MS = 250;
const RESTART_MAX_MS = 30_000;
/** Uptime in `ms` after which the pause is reset to the shortest. */
const STABLE_MS = 60_000;
const KINDS = allOf<EntryKind>()("tools", "resources", "prompts");

/**
 * All external MCP servers of one VM. While the process is down, requests fail with
 * `mcp.channel_closed` and it is restarted; without the program, or without a server to connect to,
 * catalogues are empty and calls fail.
 */
export class Aggregator {
  readonly #options: AggregatorOptions;
  readonly #lists: Lists;
  readonly #watchers = new Set<(kind: EntryKind) => void>();
  /** renewed when the definitions or the process are replaced */
  readonly #subscriptions = new Set<string>();
  #answerer: RequestAnswerer = refuseRequest;
  readonly #noticeWatchers = new Set<(notice: ServerNotice) => void>();
  readonly #timeouts: { request: number; call: number };
  #command: string[] | null = null;
  #definitions: AggregatorDefinition[];
  #process?: AggregatorProcess;
  #restart?: ReturnType<typeof setTimeout>;
  #failures = 0;
  #closed = false;

  /** Starts the process if there is a server to connect to; connects in the background. */
  static async start(options: AggregatorOptions): Promise<Aggregator> {
    const aggregator = new Aggregator(options);
    const program = options.command === undefined ? await siblingProgram(AGGREGATOR) : undefined;
    aggregator.#command = options.command ?? (program ? [program] : null);
    aggregator.#spawn();
    return aggregator;
  }

  private constructor(options: AggregatorOptions) {
    this.#options = options;
    this.#definitions = options.definitions;
    this.#timeouts = options.timeouts ?? { request: REQUEST_TIMEOUT_MS, call: CALL_TIMEOUT_MS };
    this.#lists = new Lists((method, cursor) => this.#request(method, { cursor }), options);
  }

  /** Pid of the process; `undefined` while it is down. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  async listServers(options: CallOptions = {}): Promise<ServerStatus[]> {
    const reason = this.#idleReason ?? (this.#process ? undefined : channelClosed().message);
    if (reason !== undefined) return offlineStatuses(this.#definitions, reason);
    const all: ServerStatus[] = [];
    for (let cursor: unknown = 0; typeof cursor === "number";) {
      const answer = await this.#request("list_servers", { cursor }, options);
      all.push(...answer.servers as ServerStatus[]);
      cursor = answer.next_cursor;
    }
    return all;
  }

  /** Tools of all servers; a tool that is held back has `pin_changed`. @throws {SbxError} as every request */
  async listTools({ signal }: CallOptions = {}): Promise<ToolEntry[]> {
    if (this.#idleReason !== undefined) return [];
    return (await abortable(this.#lists.tools(), signal)).list;
  }

  async listResources({ signal }: CallOptions = {}): Promise<ResourceEntry[]> {
    return this.#idleReason !== undefined ? [] : await abortable(this.#lists.resources(), signal);
  }

  async listResourceTemplates({ signal }: CallOptions = {}): Promise<ResourceTemplateEntry[]> {
    return this.#idleReason !== undefined ? [] : await abortable(this.#lists.templates(), signal);
  }

  async listPrompts({ signal }: CallOptions = {}): Promise<PromptEntry[]> {
    return this.#idleReason !== undefined ? [] : await abortable(this.#lists.prompts(), signal);
  }

  /**
   * Calls a tool by its namespaced name.
   *
   * @returns MCP's `CallToolResult` as the server gave it
   * @throws {SbxError} `mcp.tool.not_found`, `mcp.tool.held`, `mcp.failed`, `mcp.timeout`, `mcp.too_large`,
   * `mcp.channel_closed`
   */
  async callTool(name: string, args: Record<string, unknown>, options: CallOptions = {}): Promise<unknown> {
    this.#requireServed(name);
    const tool = (await abortable(this.#lists.tools(), options.signal)).byName.get(name) ??
      await this.#awaitTool(name, options);
    if (!tool) throw unknownTool(name, await this.listServers(options));
    if (tool.pin_changed) {
      throw new SbxError(
        "mcp.tool.held",
        `${foreignText(name)} differs from its approved definition and is held back`,
        { hint: "sbx mcp diff shows the change, and the hash with which sbx mcp approve accepts it" },
      );
    }
    return (await this.#request("call_tool", { name, arguments: args }, options, this.#timeouts.call)).result;
  }

  /** Waits for a server that has listed nothing yet: lists do not wait for a program that starts slowly. */
  async #awaitTool(name: string, options: CallOptions): Promise<ToolEntry | undefined> {
    const server = splitName(name)?.server;
    const isDefined = this.#definitions.some((definition) =>
      definition.name === server && isServed(definition)
    );
    if (server === undefined || !isDefined) return undefined;
    const { list } = await this.#lists.tools();
    if (list.some(({ server_name }) => server_name === server)) return undefined;
    const { result } = await this.#request("await_server", { name: server }, options, this.#timeouts.call);
    if (!(result as { connected?: unknown }).connected) return undefined;
    this.#lists.invalidate(["tools"]);
    return (await abortable(this.#lists.tools(), options.signal)).byName.get(name);
  }

  /** @returns MCP's `ReadResourceResult` */
  async readResource(uri: string, options: CallOptions = {}): Promise<unknown> {
    this.#requireServed(uri);
    return (await this.#request("read_resource", { uri }, options)).result;
  }

  /** @returns MCP's `GetPromptResult` */
  async getPrompt(name: string, args: Record<string, unknown>, options: CallOptions = {}): Promise<unknown> {
    this.#requireServed(name);
    return (await this.#request("get_prompt", { name, arguments: args }, options)).result;
  }

  /** @param ref namespaced prompt or URI template. @returns MCP's `CompleteResult` */
  async complete(request: CompletionRequest, options: CallOptions = {}): Promise<unknown> {
    this.#requireServed(request.ref.name);
    return (await this.#request("complete", { ...request }, options)).result;
  }

  /** Has updates of a resource reported to `watchNotices`, until {@linkcode unsubscribe}. */
  async subscribe(uri: string, options: CallOptions = {}): Promise<void> {
    this.#requireServed(uri);
    await this.#request("subscribe", { uri }, options);
    this.#subscriptions.add(uri);
  }

  async unsubscribe(uri: string, options: CallOptions = {}): Promise<void> {
    this.#subscriptions.delete(uri);
    this.#requireServed(uri);
    await this.#request("unsubscribe", { uri }, options);
  }

  /**
   * Disconnects from all servers and connects to these; settles after the first attempt at each. Calls in
   * progress fail. Pins are compared again, which releases tools approved meanwhile.
   */
  async refresh(definitions: AggregatorDefinition[]): Promise<void> {
    this.#definitions = definitions;
    try {
      if (this.#process) await this.#process.refresh(definitions, this.#timeouts.request);
      else {
        clearTimeout(this.#restart);
        this.#spawn();
      }
    } finally {
      this.#renewSubscriptions();
      this.#announce(KINDS);
    }
  }

  /** Compares pins again after a tool was approved. */
  recheck(): void {
    this.#announce(["tools"]);
  }

  /** Calls `changed` when a list changes. @returns a function that ends the watch */
  watch(changed: (kind: EntryKind) => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  /** Calls `noticed` with what servers say without being asked. @returns a function that ends the watch */
  watchNotices(noticed: (notice: ServerNotice) => void): () => void {
    this.#noticeWatchers.add(noticed);
    return () => this.#noticeWatchers.delete(noticed);
  }

  /**
   * Has requests of servers answered; without an answerer they are refused.
   * @returns a function that ends it
   */
  answerRequests(answerer: RequestAnswerer): () => void {
    this.#answerer = answerer;
    return () => this.#answerer = refuseRequest;
  }

  /** Ends the process, which closes its servers' sessions. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#restart);
    await this.#process?.close();
  }

  /** The reason why no process is needed; `undefined` when one is. */
  get #idleReason(): string | undefined {
    if (this.#command === null) return `${AGGREGATOR} is not installed`;
    return this.#process || this.#definitions.some(isServed) ? undefined : "no enabled server is configured";
  }

  #requireServed(name: string): void {
    const reason = this.#idleReason;
    if (reason !== undefined) throw new SbxError("mcp.failed", `MCP ${foreignText(name)}: ${reason}`);
  }

  async #request(
    method: string,
    params: Record<string, unknown>,
    options: CallOptions = {},
    timeoutMs = this.#timeouts.request,
  ): Promise<Record<string, unknown>> {
    if (!this.#process) throw channelClosed();
    return await this.#process.request(method, params, timeoutMs, options);
  }

  #spawn(): void {
    if (this.#closed || this.#command === null || !this.#definitions.some(isServed)) return;
    const began = performance.now();
    try {
      const process = this.#process = new AggregatorProcess({
        command: this.#command,
        definitions: this.#definitions,
        dir: this.#options.dir,
        resolve: this.#options.resolve,
        logins: this.#options.logins,
        startStdio: this.#options.startStdio,
        onChanged: (kinds) => this.#announce(kinds),
        onRequest: (request, signal) => this.#answerer(request, signal),
        onNotice: (notice) => {
          for (const noticed of this.#noticeWatchers) noticed(notice);
        },
        log: (line) => this.#log(line),
      });
      process.ended.then(() => this.#scheduleRestart(performance.now() - began));
    } catch (error) {
      this.#log(asSbxError(error, `starting ${AGGREGATOR}`).message);
      this.#scheduleRestart(0);
    }
  }

  #scheduleRestart(uptimeMs: number): void {
    this.#process = undefined;
    if (this.#closed) return;
    if (uptimeMs > STABLE_MS) this.#failures = 0;
    const pause = Math.min(RESTART_MAX_MS, RESTART_MIN_MS * 2 ** this.#failures++);
    this.#log(`${AGGREGATOR} exited; restarting in ${pause} ms`);
    // Cached lists stay readable until the restart, and are fetched again after it.
    this.#restart = setTimeout(() => {
      this.#spawn();
      this.#renewSubscriptions();
      this.#announce(KINDS);
    }, pause);
  }

  #renewSubscriptions(): void {
    for (const uri of this.#subscriptions) {
      this.#request("subscribe", { uri }).catch((error) =>
        this.#log(asSbxError(error, "subscribing").message)
      );
    }
  }

  #announce(kinds: readonly EntryKind[]): void {
    this.#lists.invalidate(kinds);
    for (const watcher of this.#watchers) for (const kind of kinds) watcher(kind);
  }

  #log(line: string): void {
    this.#options.log?.(line);
  }
}

function refuseRequest(): Promise<never> {
  return Promise.reject(new Error("requests of servers are not answered here"));
}

/** A shared promise for one caller, who may stop waiting. */
async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return await promise;
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * Error of a call to a tool that no server lists; with the reason, where its server
 * cannot be asked for its tools.
 */
function unknownTool(name: string, statuses: readonly ServerStatus[]): SbxError {
  const problem = statuses.find((status) => status.name === splitName(name)?.server)?.last_error;
  const reason = problem === undefined ? "" : `: ${foreignText(problem)}`;
  return new SbxError("mcp.tool.not_found", `no MCP server offers a tool "${foreignText(name)}"${reason}`, {
    hint: "sbx mcp tools lists the available tools",
  });
}

export interface AggregatorOptions extends ListsOptions {
  /** in trust order, see `definitionsOf` */
  definitions: AggregatorDefinition[];
  /** folder accessible to this user only; holds the private wire's socket while it is being accepted */
  dir: string;
  /** credential broker; without it servers with `auth` are not connected */
  resolve?: CredentialResolver;
  /** logins of people at servers; without it a server that needs one is not connected */
  logins?: ServerLogins;
  /** starts the programs of stdio servers; without it they are not connected */
  startStdio?: StdioStarter;
  /** program and arguments; default: the program installed beside this one; null: not installed */
  command?: string[] | null;
  /** `ms` (docs/design/contracts/08-mcp.md §8) */
  timeouts?: { request: number; call: number };
  /** receives failures that no caller waits for */
  log?(line: string): void;
}

/** Statuses while no aggregator runs: no server is connected, for the reason given. */
export function offlineStatuses(definitions: AggregatorDefinition[], reason: string): ServerStatus[] {
  return definitions.map(({ name, url, enabled, source, unsupported_stdio }) => ({
    name,
    url,
    enabled,
    source,
    connected: false,
    tool_count: 0,
    resource_count: 0,
    prompt_count: 0,
    ...(enabled && { last_error: unsupported_stdio ? STDIO_UNSUPPORTED : reason }),
  }));
}

// The aggregator's lists, cached until they change.

/** Fetches one page: entries from `cursor` on. */
type FetchPage = (method: string, cursor: number) => Promise<Record<string, unknown>>;

interface ListsOptions {
  pins?: PinStore;
  onFinding?(change: PinChange): void;
}

/** Tools in order, and by namespaced name. */
interface ToolList {
  list: ToolEntry[];
  byName: Map<string, ToolEntry>;
}

/** Hashes computed in one turn of the event loop. */
const BATCH = 200;

class Lists {
  readonly #fetch: FetchPage;
  readonly #options: ListsOptions;
  /** tools hashed last time; most of them do not change */
  #hashed = new Map<string, ToolEntry>();
  #tools?: Promise<ToolList>;
  #resources?: Promise<ResourceEntry[]>;
  #templates?: Promise<ResourceTemplateEntry[]>;
  #prompts?: Promise<PromptEntry[]>;

  constructor(fetch: FetchPage, options: ListsOptions) {
    this.#fetch = fetch;
    this.#options = options;
  }

  tools(): Promise<ToolList> {
    const list = this.#tools ??= this.#fetchAll("tools").then((tools) => this.#checkPins(tools));
    list.catch(() => this.#tools === list && (this.#tools = undefined));
    return list;
  }

  resources(): Promise<ResourceEntry[]> {
    const list = this.#resources ??= this.#fetchAll("resources");
    list.catch(() => this.#resources === list && (this.#resources = undefined));
    return list;
  }

  templates(): Promise<ResourceTemplateEntry[]> {
    const list = this.#templates ??= this.#fetchAll("templates");
    list.catch(() => this.#templates === list && (this.#templates = undefined));
    return list;
  }

  prompts(): Promise<PromptEntry[]> {
    const list = this.#prompts ??= this.#fetchAll("prompts");
    list.catch(() => this.#prompts === list && (this.#prompts = undefined));
    return list;
  }

  /** Drops cached lists that are out of date. */
  invalidate(kinds: Iterable<EntryKind>): void {
    for (const kind of kinds) {
      if (kind === "tools") this.#tools = undefined;
      else if (kind === "resources") this.#resources = this.#templates = undefined;
      else this.#prompts = undefined;
    }
  }

  async #fetchAll<K extends ListKind>(kind: K): Promise<Entries[K][]> {
    const all: Entries[K][] = [];
    for (let cursor = 0; cursor < ENTRIES_MAX * SERVERS_MAX;) {
      const answer = await this.#fetch(`list_${kind}`, cursor);
      const page = answer[kind];
      if (!Array.isArray(page)) {
        throw new SbxError("mcp.failed", `the MCP aggregator returned an invalid list of ${kind}`);
      }
      for (const entry of page) all.push(entry);
      const next = answer.next_cursor;
      if (typeof next !== "number" || next <= cursor) break;
      cursor = next;
    }
    return all;
  }

  /**
   * Computes the pins here instead of trusting the aggregator, which talks to untrusted servers. Rejects when
   * the list cannot be compared with the approved pins.
   */
  async #checkPins(list: ToolEntry[]): Promise<ToolList> {
    const servers = new Map<string, ToolEntry[]>();
    for (const [at, tool] of list.entries()) {
      if (at % BATCH === BATCH - 1) await new Promise((resolve) => setTimeout(resolve, 0));
      const previous = this.#hashed.get(tool.namespaced_name);
      tool.pin_hash = previous && hasSamePin(previous, tool)
        ? previous.pin_hash
        : pinHash(definitionOf(tool));
      tool.pin_changed = false;
      const tools = servers.get(tool.server_name);
      if (tools) tools.push(tool);
      else servers.set(tool.server_name, [tool]);
    }
    for (const [server, tools] of this.#options.pins ? servers : []) await this.#compare(server, tools);
    this.#hashed = new Map(list.map((tool) => [tool.namespaced_name, tool]));
    return { list, byName: this.#hashed };
  }

  async #compare(server: string, tools: ToolEntry[]): Promise<void> {
    const { pins, onFinding } = this.#options;
    const listed = tools.map((tool) => ({ definition: definitionOf(tool), hash: tool.pin_hash }));
    const { heldTools, newChanges } = await pins!.check(server, listed);
    for (const tool of tools) tool.pin_changed = heldTools.has(tool.original_name);
    for (const change of newChanges) onFinding?.(change);
  }
}

function definitionOf({ original_name, description, input_schema }: ToolEntry) {
  return { name: original_name, description, input_schema };
}

/** Tests whether two tools surely have the same pin; false may be wrong. */
function hasSamePin(a: ToolEntry, b: ToolEntry): boolean {
  return a.original_name === b.original_name && a.description === b.description &&
    JSON.stringify(a.input_schema) === JSON.stringify(b.input_schema);
}
