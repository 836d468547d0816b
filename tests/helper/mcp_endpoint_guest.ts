/**
 * The guest's side of an endpoint, without a VM: a Unix socket in place of vsock, and
 * the guest's own bridge before it.
 */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/shared/transport"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { bridge, MESSAGE_LIMIT, readLines } from "../../cmd/guest/mcp_server/bridge.ts";
import { FrameChannel } from "../../lib/base/wire/mod.ts";
import { mcpChannel } from "../../lib/machine/guest/mcp/mod.ts";
import { MCP_FRAME_LIMIT, MCP_RESULT_FRAME_LIMIT } from "../../lib/machine/guest/wire/mod.ts";
import { type EndpointParts, McpEndpoint } from "../../lib/mcp/endpoint/mod.ts";

/** Bytes that one side writes and the other reads. */
class Pipe {
  readonly #stream = new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 1024 });
  readonly #writer = this.#stream.writable.getWriter();
  readonly #reader = this.#stream.readable.getReader();
  #rest = new Uint8Array();

  async write(bytes: Uint8Array): Promise<number> {
    await this.#writer.write(bytes.slice());
    return bytes.length;
  }

  async read(into: Uint8Array): Promise<number | null> {
    while (this.#rest.length === 0) {
      const { value, done } = await this.#reader.read();
      if (done) return null;
      this.#rest = value as Uint8Array<ArrayBuffer>;
    }
    const part = this.#rest.subarray(0, into.length);
    into.set(part);
    this.#rest = this.#rest.subarray(part.length);
    return part.length;
  }

  close(): void {
    this.#writer.close().catch(() => {});
  }
}

/** An MCP client's stdio transport, whose server is the guest's program without its process. */
export class GuestTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport["onmessage"];
  /** settles when the bridge has ended */
  ended: Promise<void> = Promise.resolve();
  readonly #conn: Deno.Conn;
  readonly #input = new Pipe();
  readonly #output = new Pipe();

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  start(): Promise<void> {
    const channel = mcpChannel(this.#conn);
    this.ended = bridge({ input: this.#input, output: this.#output, channel, processName: "agent" })
      .catch((error) => this.onerror?.(error))
      .finally(() => {
        channel.close();
        this.#output.close();
      });
    this.#read();
    return Promise.resolve();
  }

  async #read(): Promise<void> {
    for await (const line of readLines(this.#output, 5 * MESSAGE_LIMIT)) {
      this.onmessage?.(JSON.parse(new TextDecoder().decode(line)));
    }
    this.onclose?.();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.sendLine(JSON.stringify(message));
  }

  /** One line as it is. */
  async sendLine(line: string): Promise<void> {
    await this.#input.write(new TextEncoder().encode(`${line}\n`));
  }

  /** Ends the client's side, as an agent that exits does, and waits for the server to follow. */
  async close(): Promise<void> {
    this.#input.close();
    await this.ended;
  }
}

/** An endpoint on a socket of its own. */
export class GuestSide {
  readonly endpoint: McpEndpoint;
  readonly #dir = Deno.makeTempDirSync({ prefix: "sbx-mcp-" });
  readonly #listener = Deno.listen({ transport: "unix", path: `${this.#dir}/mcp` });
  readonly #clients: Client[] = [];
  /** settle when the connections, in the order in which they came, are over */
  readonly served: Promise<void>[] = [];

  constructor(parts: EndpointParts) {
    this.endpoint = new McpEndpoint(parts);
    this.#accept();
  }

  async #accept(): Promise<void> {
    for await (const conn of this.#listener) {
      this.served.push(
        this.endpoint.serve(new FrameChannel(conn, MCP_FRAME_LIMIT, MCP_FRAME_LIMIT, MCP_RESULT_FRAME_LIMIT)),
      );
    }
  }

  /** Socket in place of the guest's port. */
  get path(): string {
    return `${this.#dir}/mcp`;
  }

  /** A connection as any program of the guest may open it. */
  connect(): Promise<Deno.UnixConn> {
    return Deno.connect({ transport: "unix", path: this.path });
  }

  /** Frames, with the Hello sent unless the test wants to begin otherwise. */
  async frames(hello: unknown = { t: "Hello", process_name: "agent" }): Promise<FrameChannel> {
    const channel = mcpChannel(await this.connect());
    if (hello !== null) await channel.send(hello);
    return channel;
  }

  /** Frames of a client that is initialized. */
  async initialized(): Promise<FrameChannel> {
    const channel = await this.frames();
    await channel.send({
      jsonrpc: "2.0",
      id: 0,
      method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } },
    });
    await channel.next();
    await channel.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    return channel;
  }

  /** The SDK's client, through the guest's bridge. */
  async client(): Promise<Client> {
    const client = new Client({ name: "agent", version: "1.0.0" });
    await client.connect(new GuestTransport(await this.connect()));
    this.#clients.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client.close();
    this.endpoint.close();
    this.#listener.close();
    await Deno.remove(this.#dir, { recursive: true });
  }
}
