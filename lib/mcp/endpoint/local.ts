/**
 * Built-in server `local` in the host process (docs/design/contracts/08-mcp.md §8, "Built-in server"); policy
 * applies to its tools too.
 */
import { asSbxError, guestErrorBody, SbxError } from "../../base/error/mod.ts";
import { LOCAL } from "../sources.ts";
import type { CallOptions, Catalogue, ToolEntry, ToolServer } from "./catalogue.ts";
import { type AskAccess, REQUEST_ACCESS, requestAccess } from "./local_access.ts";
import { FETCH_HTTP, fetchHttp, type Send } from "./local_fetch.ts";

const PREFIX = `${LOCAL}__`;

/** A tool of the built-in server that another part of the session provides. */
export interface LocalTool {
  /** its name begins with `local__` */
  entry: ToolEntry;
  run: Tool;
}

type Tool = (args: Record<string, unknown>, options: CallOptions) => Promise<unknown> | unknown;

export class LocalServer implements ToolServer {
  /** false once corp or the profile disables it; then it has no tools */
  isEnabled = true;
  readonly #tools: Map<string, { entry: ToolEntry; run: Tool }>;

  /**
   * @param send sends HTTP requests as the guest does, with its policy and events; without it there is no `fetch_http`
   * @param ask asks a person for access; without it there is no `request_access`
   * @param tools of other parts of the session
   */
  constructor({ send, ask, tools = [] }: { send?: Send; ask?: AskAccess; tools?: LocalTool[] } = {}) {
    this.#tools = new Map([
      [ECHO.namespaced_name, { entry: ECHO, run: echo }],
      ...(send
        ? [[FETCH_HTTP.namespaced_name, {
          entry: FETCH_HTTP,
          run: (args: Record<string, unknown>, options: CallOptions) => fetchHttp(send, args, options),
        }]] as const
        : []),
      ...(ask
        ? [[REQUEST_ACCESS.namespaced_name, {
          entry: REQUEST_ACCESS,
          run: (args: Record<string, unknown>, options: CallOptions) => requestAccess(ask, args, options),
        }]] as const
        : []),
      ...tools.map((tool) => [tool.entry.namespaced_name, tool] as const),
    ]);
  }

  listTools(): Promise<ToolEntry[]> {
    return Promise.resolve(this.isEnabled ? [...this.#tools.values()].map(({ entry }) => entry) : []);
  }

  /**
   * Calls a tool; a failure of the tool is a result with `isError`, as MCP requires.
   *
   * @throws {SbxError} `mcp.tool.not_found`
   */
  async callTool(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown> {
    if (!this.isEnabled) {
      throw new SbxError(
        "mcp.tool.not_found",
        `the server ${LOCAL} is disabled in this VM, by corp or the profile`,
      );
    }
    const tool = this.#tools.get(name);
    if (!tool) throw new SbxError("mcp.tool.not_found", `the server ${LOCAL} has no tool "${name}"`);
    try {
      return await tool.run(args, options);
    } catch (error) {
      options.signal.throwIfAborted();
      const { error: message, hint } = guestErrorBody(asSbxError(error, name));
      const text = hint ? `${message}\n${hint}` : message;
      return { isError: true, content: [{ type: "text", text }] };
    }
  }
}

/** A catalogue with the built-in server in front; names `local__*` belong to it alone. */
export function withLocal(catalogue: Catalogue, local: ToolServer): Catalogue {
  return {
    async listTools(options) {
      const [builtin, external] = await Promise.all([local.listTools(options), catalogue.listTools(options)]);
      return [...builtin, ...external.filter(({ namespaced_name }) => !namespaced_name.startsWith(PREFIX))];
    },
    callTool: (name, args, options) =>
      (name.startsWith(PREFIX) ? local : catalogue).callTool(name, args, options),
    listResources: (options) => catalogue.listResources(options),
    listResourceTemplates: (options) => catalogue.listResourceTemplates?.(options) ?? Promise.resolve([]),
    listPrompts: (options) => catalogue.listPrompts(options),
    readResource: (uri, options) => catalogue.readResource(uri, options),
    getPrompt: (name, args, options) => catalogue.getPrompt(name, args, options),
    complete: catalogue.complete?.bind(catalogue),
    subscribe: catalogue.subscribe?.bind(catalogue),
    unsubscribe: catalogue.unsubscribe?.bind(catalogue),
    answerRequests: catalogue.answerRequests?.bind(catalogue),
    watchNotices: catalogue.watchNotices?.bind(catalogue),
    watch: (changed) => catalogue.watch?.(changed) ?? (() => {}),
  };
}

const ECHO: ToolEntry = {
  namespaced_name: "local__echo",
  title: "Echo",
  description: "Returns the given text. Use it to check whether MCP works in this VM.",
  input_schema: {
    type: "object",
    properties: { text: { type: "string", description: "text to return" } },
    required: ["text"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
};

/** @throws {SbxError} `mcp.arguments.invalid` */
function echo({ text }: Record<string, unknown>): unknown {
  if (typeof text !== "string") {
    throw new SbxError("mcp.arguments.invalid", 'echo: "text" must be a string');
  }
  return { content: [{ type: "text", text }] };
}
