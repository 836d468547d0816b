/** The aggregator as sbx-process drives it (spec.md, "Aggregator subprocess lifecycle"). */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import type { Kind, PromptEntry, ResourceEntry, ServerStatus, ToolEntry } from "../entry.ts";
import { CALL_TIMEOUT_MS, REQUEST_TIMEOUT_MS } from "../limit.ts";
import type { CredentialResolver } from "../outbound/mod.ts";
import { foreignText } from "../text.ts";
import { Channel, channelClosed } from "./channel.ts";
import { Lists, type ListsOptions } from "./lists.ts";
import type { CallOptions } from "./pending.ts";
import { AGGREGATOR, aggregatorProgram } from "./program.ts";
import { unconnected } from "./statuses.ts";

export interface AggregatorOptions extends ListsOptions {
  /** in trust order, see `definitionsOf` */
  definitions: AggregatorDefinition[];
  /** a folder that only this user may enter; the private wire's socket is in it for a moment */
  dir: string;
  /** the credential broker; without it servers with `auth` are not connected */
  resolve?: CredentialResolver;
  /** program and arguments; default: what is installed beside this program, null: nothing is */
  command?: string[] | null;
  /** milliseconds, contracts.md §8 */
  timeouts?: { request: number; call: number };
  /** what goes wrong without anybody waiting for it */
  log?(line: string): void;
}

/** Pause before a crashed aggregator is started again; it doubles, up to the longest. */
const RESTART_MIN_MS = 250;
const RESTART_MAX_MS = 30_000;
/** One that lived this long starts over with the shortest pause. */
const STABLE_MS = 60_000;
const KINDS: readonly Kind[] = ["tools", "resources", "prompts"];

/**
 * All external MCP servers of one VM. While its process is not there, requests fail with `mcp.channel_closed` and it is
 * started again; without the program, or without a server to connect to, catalogues are empty and calls fail.
 */
export class Aggregator {
  readonly #options: AggregatorOptions;
  readonly #lists: Lists;
  readonly #watchers = new Set<(kind: Kind) => void>();
  readonly #timeouts: { request: number; call: number };
  #command: string[] | null = null;
  #definitions: AggregatorDefinition[];
  #channel?: Channel;
  #restart?: ReturnType<typeof setTimeout>;
  #failures = 0;
  #closed = false;

  /** Starts the process if there is a server for it; it connects in the background. */
  static async start(options: AggregatorOptions): Promise<Aggregator> {
    const aggregator = new Aggregator(options);
    const program = options.command === undefined ? await aggregatorProgram() : undefined;
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

  /** Pid of the process; undefined while there is none. */
  get pid(): number | undefined {
    return this.#channel?.pid;
  }

  async listServers(options: CallOptions = {}): Promise<ServerStatus[]> {
    const why = this.#idle ?? (this.#channel ? undefined : channelClosed().message);
    if (why !== undefined) return unconnected(this.#definitions, why);
    const all: ServerStatus[] = [];
    for (let cursor: unknown = 0; typeof cursor === "number";) {
      const answer = await this.#request("list_servers", { cursor }, options);
      all.push(...answer.servers as ServerStatus[]);
      cursor = answer.next_cursor;
    }
    return all;
  }

  /** Tools of all servers; what is held back has `pin_changed`. @throws {SbxError} as every request */
  async listTools({ signal }: CallOptions = {}): Promise<ToolEntry[]> {
    if (this.#idle !== undefined) return [];
    return (await abortable(this.#lists.tools(), signal)).list;
  }

  async listResources({ signal }: CallOptions = {}): Promise<ResourceEntry[]> {
    return this.#idle !== undefined ? [] : await abortable(this.#lists.resources(), signal);
  }

  async listPrompts({ signal }: CallOptions = {}): Promise<PromptEntry[]> {
    return this.#idle !== undefined ? [] : await abortable(this.#lists.prompts(), signal);
  }

  /**
   * Calls a tool by its namespaced name.
   *
   * @returns MCP's `CallToolResult` as the server gave it
   * @throws {SbxError} `mcp.tool.not_found`, `mcp.tool.held`, `mcp.failed`, `mcp.timeout`, `mcp.too_large`,
   * `mcp.channel_closed`
   */
  async callTool(name: string, args: Record<string, unknown>, options: CallOptions = {}): Promise<unknown> {
    this.#refuseIdle(name);
    const { byName } = await abortable(this.#lists.tools(), options.signal);
    const tool = byName.get(name);
    if (!tool) {
      throw new SbxError("mcp.tool.not_found", `no MCP server offers a tool "${foreignText(name)}"`, {
        hint: "sbx mcp tools lists those that exist",
      });
    }
    if (tool.pin_changed) {
      throw new SbxError(
        "mcp.tool.held",
        `${foreignText(name)} is not the tool that was approved; it is held back`,
        {
          hint: "sbx mcp diff shows what changed, sbx mcp approve lets it pass",
        },
      );
    }
    return (await this.#request("call_tool", { name, arguments: args }, options, this.#timeouts.call)).result;
  }

  /** @returns MCP's `ReadResourceResult` */
  async readResource(uri: string, options: CallOptions = {}): Promise<unknown> {
    this.#refuseIdle(uri);
    return (await this.#request("read_resource", { uri }, options)).result;
  }

  /** @returns MCP's `GetPromptResult` */
  async getPrompt(name: string, args: Record<string, unknown>, options: CallOptions = {}): Promise<unknown> {
    this.#refuseIdle(name);
    return (await this.#request("get_prompt", { name, arguments: args }, options)).result;
  }

  /**
   * Disconnects from all servers and connects to these; settles when they were all tried. Calls that were under way
   * fail. Pins are compared anew, so that what was approved meanwhile passes.
   */
  async refresh(definitions: AggregatorDefinition[]): Promise<void> {
    this.#definitions = definitions;
    try {
      if (this.#channel) await this.#channel.refresh(definitions, this.#timeouts.request);
      else {
        clearTimeout(this.#restart);
        this.#spawn();
      }
    } finally {
      this.#changed(KINDS);
    }
  }

  /** Compares pins anew: somebody approved a tool. */
  recheck(): void {
    this.#changed(["tools"]);
  }

  /** Calls back when a list is not what it was. @returns ends that */
  watch(changed: (kind: Kind) => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  /** Ends the process, which says goodbye to its servers. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#restart);
    await this.#channel?.close();
  }

  /** Why there is no process and need not be one. */
  get #idle(): string | undefined {
    if (this.#command === null) return `${AGGREGATOR} is not installed`;
    return this.#channel || this.#definitions.some(isServed) ? undefined : "no server is to be connected";
  }

  #refuseIdle(name: string): void {
    const why = this.#idle;
    if (why !== undefined) throw new SbxError("mcp.failed", `MCP ${foreignText(name)}: ${why}`);
  }

  async #request(
    method: string,
    params: Record<string, unknown>,
    options: CallOptions = {},
    timeoutMs = this.#timeouts.request,
  ): Promise<Record<string, unknown>> {
    if (!this.#channel) throw channelClosed();
    return await this.#channel.request(method, params, timeoutMs, options);
  }

  #spawn(): void {
    if (this.#closed || this.#command === null || !this.#definitions.some(isServed)) return;
    const began = performance.now();
    try {
      const channel = this.#channel = new Channel({
        command: this.#command,
        definitions: this.#definitions,
        dir: this.#options.dir,
        resolve: this.#options.resolve,
        onChanged: (kinds) => this.#changed(kinds),
        log: (line) => this.#log(line),
      });
      channel.gone.then(() => this.#crashed(performance.now() - began));
    } catch (error) {
      this.#log(asSbxError(error, `starting ${AGGREGATOR}`).message);
      this.#crashed(0);
    }
  }

  #crashed(livedMs: number): void {
    this.#channel = undefined;
    if (this.#closed) return;
    if (livedMs > STABLE_MS) this.#failures = 0;
    const pause = Math.min(RESTART_MAX_MS, RESTART_MIN_MS * 2 ** this.#failures++);
    this.#log(`${AGGREGATOR} ended; it is started again in ${pause} ms`);
    // The lists stay as they are for those who look, and are read anew when it is there again.
    this.#restart = setTimeout(() => {
      this.#spawn();
      this.#changed(KINDS);
    }, pause);
  }

  #changed(kinds: readonly Kind[]): void {
    this.#lists.drop(kinds);
    for (const watcher of this.#watchers) for (const kind of kinds) watcher(kind);
  }

  #log(line: string): void {
    this.#options.log?.(line);
  }
}

function isServed({ enabled, unsupported_stdio }: AggregatorDefinition): boolean {
  return enabled && !unsupported_stdio;
}

/** A shared answer for one who may stop waiting. */
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
