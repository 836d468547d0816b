/** The built-in server `local` (issue 7), in the host's process: its tools are decided on like any other's. */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { CallOptions, Catalogue, ToolEntry, ToolServer } from "./catalogue.ts";
import { ECHO, echo } from "./local_echo.ts";
import { FETCH_HTTP, fetchHttp, type Send } from "./local_fetch.ts";

/** Its name; no other server may have it. */
export const LOCAL = "local";
const PREFIX = `${LOCAL}__`;

type Tool = (args: Record<string, unknown>, options: CallOptions) => Promise<unknown> | unknown;

/** The server `local`. */
export class LocalServer implements ToolServer {
  readonly #tools: Map<string, { entry: ToolEntry; run: Tool }>;

  /** @param send the way that the guest's own HTTP requests go, with its policy and its events; none: no `fetch_http` */
  constructor({ send }: { send?: Send } = {}) {
    this.#tools = new Map([
      [ECHO.namespaced_name, { entry: ECHO, run: echo }],
      ...(send
        ? [[FETCH_HTTP.namespaced_name, {
          entry: FETCH_HTTP,
          run: (args: Record<string, unknown>, options: CallOptions) => fetchHttp(send, args, options),
        }]] as const
        : []),
    ]);
  }

  listTools(): Promise<ToolEntry[]> {
    return Promise.resolve([...this.#tools.values()].map(({ entry }) => entry));
  }

  /** A tool that fails answers with a result that says so, as MCP wants it. @throws SbxError `mcp.tool.not_found` */
  async callTool(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown> {
    const tool = this.#tools.get(name);
    if (!tool) throw new SbxError("mcp.tool.not_found", `the server ${LOCAL} has no tool "${name}"`);
    try {
      return await tool.run(args, options);
    } catch (error) {
      options.signal.throwIfAborted();
      const { message, hint } = asSbxError(error, name);
      const text = hint ? `${message}\n${hint}` : message;
      return { isError: true, content: [{ type: "text", text }] };
    }
  }
}

/** A catalogue with a built-in server in front of it: what is named `local__*` is its own and nobody else's. */
export function withLocal(catalogue: Catalogue, local: ToolServer): Catalogue {
  return {
    async listTools(options) {
      const [own, others] = await Promise.all([local.listTools(options), catalogue.listTools(options)]);
      return [...own, ...others.filter(({ namespaced_name }) => !namespaced_name.startsWith(PREFIX))];
    },
    callTool: (name, args, options) =>
      (name.startsWith(PREFIX) ? local : catalogue).callTool(name, args, options),
    listResources: (options) => catalogue.listResources(options),
    listResourceTemplates: (options) => catalogue.listResourceTemplates?.(options) ?? Promise.resolve([]),
    listPrompts: (options) => catalogue.listPrompts(options),
    readResource: (uri, options) => catalogue.readResource(uri, options),
    getPrompt: (name, args, options) => catalogue.getPrompt(name, args, options),
    watch: (changed) => catalogue.watch?.(changed) ?? (() => {}),
  };
}
