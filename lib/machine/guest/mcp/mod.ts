/** MCP of the guest's own programs. Loads no zod: they bundle it. */
import { FrameChannel } from "../../../base/wire/mod.ts";
import { connectHost, MCP_FRAME_LIMIT, MCP_RESULT_FRAME_LIMIT, PORTS } from "../wire/mod.ts";

/** The guest's end of a connection to the MCP port. */
export function mcpChannel(conn: Deno.Conn): FrameChannel {
  return new FrameChannel(conn, MCP_RESULT_FRAME_LIMIT, MCP_RESULT_FRAME_LIMIT, MCP_FRAME_LIMIT);
}

/** The result of `tools/call`. */
interface ToolResult {
  isError?: boolean;
  content?: { text?: string }[];
  structuredContent?: unknown;
}

interface Message {
  id?: unknown;
  method?: string;
  params?: { message?: unknown };
  result?: unknown;
  error?: { message: string };
}

/**
 * One MCP connection of a guest program to the host (docs/design/contracts/07-guest-wire.md §7, port 5002).
 */
export class McpClient implements Disposable {
  readonly #channel: FrameChannel;
  #id = 0;

  private constructor(channel: FrameChannel) {
    this.#channel = channel;
  }

  /**
   * @param name of the program
   * @param open the host's end; for tests
   * @throws {Error} the host has no endpoint for this VM
   */
  static async connect(name: string, open = () => connectHost(PORTS.mcp)): Promise<McpClient> {
    const conn = await open().catch(() => {
      throw new Error("the host does not answer; ask your user");
    });
    const client = new McpClient(mcpChannel(conn));
    await client.#channel.send({ t: "Hello", process_name: name });
    await client.#request("initialize", {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name, version: "1" },
    });
    await client.#channel.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    return client;
  }

  /** Waits for the host's answer to an MCP ping. @throws {Error} */
  async ping(): Promise<void> {
    await this.#request("ping", {});
  }

  /**
   * Calls a tool.
   *
   * @param waits called with the reports of a host that waits for a person
   * @returns its structured answer
   * @throws {Error} the reason of the host
   */
  async call(name: string, args: Record<string, unknown>, waits?: (text: string) => void): Promise<unknown> {
    const { isError, content, structuredContent } = await this.#request<ToolResult>("tools/call", {
      name,
      arguments: args,
      ...(waits && { _meta: { progressToken: name } }),
    }, waits);
    if (isError) throw new Error(content?.[0]?.text ?? "the call failed");
    return structuredContent;
  }

  [Symbol.dispose](): void {
    this.#channel.close();
  }

  async #request<T>(
    method: string,
    params: Record<string, unknown>,
    waits?: (text: string) => void,
  ): Promise<T> {
    const id = ++this.#id;
    await this.#channel.send({ jsonrpc: "2.0", id, method, params });
    for (let frame = await this.#channel.next(); frame !== null; frame = await this.#channel.next()) {
      const message = frame as Message;
      if (message.method === "notifications/progress") waits?.(String(message.params?.message ?? ""));
      if (message.id !== id) continue;
      if (message.error) throw new Error(message.error.message);
      return message.result as T;
    }
    throw new Error("the host closed the connection");
  }
}
