/** MCP servers on the loopback address: one made with the SDK, and one that says what a test wants it to. */
// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
// @ts-types="@modelcontextprotocol/sdk/server/webStandardStreamableHttp"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { AggregatorDefinition } from "../../lib/mcp/mod.ts";
import type { Parsed } from "./json.ts";

export interface Loopback {
  url: string;
  port: number;
  /** requests that arrived */
  requests: Request[];
  /** JSON-RPC messages that arrived at a scripted server */
  messages: Parsed[];
  close(): Promise<void>;
}

function listen(handler: (request: Request) => Response | Promise<Response>, port = 0): Loopback {
  const requests: Request[] = [];
  const abort = new AbortController();
  const server = Deno.serve(
    {
      hostname: "127.0.0.1",
      port,
      signal: abort.signal,
      onListen() {},
      onError: () => new Response(null, { status: 500 }),
    },
    (request) => {
      requests.push(request);
      return handler(request);
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}/mcp`,
    port: server.addr.port,
    requests,
    messages: [],
    close: async () => {
      abort.abort();
      await server.finished;
    },
  };
}

/** A server with sessions, as the SDK makes one; `make` is called for each session. */
export function sdkServer(make: (server: McpServer) => void, { port }: { port?: number } = {}): Loopback {
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  return listen(async (request) => {
    const id = request.headers.get("mcp-session-id");
    let transport = id ? sessions.get(id) : undefined;
    if (id && !transport) return new Response("no such session", { status: 404 });
    if (!transport) {
      const opened = transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (session: string) => {
          sessions.set(session, opened);
        },
      });
      const server = new McpServer({ name: "test", version: "1" }, {
        capabilities: { tools: { listChanged: true } },
      });
      make(server);
      await server.connect(transport);
    }
    return await transport.handleRequest(request);
  }, port);
}

/** Answers of a scripted server by method; what is not named is answered as an empty server would. */
export interface Script {
  initialize?(request: Request): Response | Promise<Response>;
  tools?: unknown[] | (() => unknown[]);
  /** the answer to a call; a function gets the request's message */
  call?(message: { id: number; params: Parsed }, request: Request): Response | Promise<Response>;
  /** the answer to a page of `tools/list` */
  list?(params: Parsed): Record<string, unknown>;
  /** an answer instead of the list of tools */
  guardList?(request: Request): Response | undefined;
  /** the server's own stream */
  stream?(request: Request): Response;
}

/** JSON-RPC by hand, without the SDK's manners. */
export function scriptedServer(script: Script, port?: number): Loopback {
  const server = listen(async (request) => {
    if (request.method === "GET") return script.stream?.(request) ?? new Response(null, { status: 405 });
    if (request.method === "DELETE") return new Response(null, { status: 405 });
    const message = await request.clone().json();
    server.messages.push(message);
    if (message.id === undefined) return new Response(null, { status: 202 });
    switch (message.method) {
      case "initialize":
        return await script.initialize?.(request) ?? result(message.id, {
          protocolVersion: "2025-06-18",
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: "scripted", version: "1" },
        });
      case "tools/list": {
        const refusal = script.guardList?.(request);
        if (refusal) return refusal;
        if (script.list) return result(message.id, script.list(message.params));
        const tools = typeof script.tools === "function" ? script.tools() : script.tools;
        return result(message.id, { tools: tools ?? [tool("do")] });
      }
      default:
        return await script.call?.(message, request) ?? result(message.id, { content: [] });
    }
  }, port);
  return server;
}

/** A tool as a server lists it. */
export function tool(name: string, description = "does something"): Record<string, unknown> {
  return { name, description, inputSchema: { type: "object", properties: { text: { type: "string" } } } };
}

/** A JSON answer. */
export function result(id: unknown, value: unknown): Response {
  return Response.json({ jsonrpc: "2.0", id, result: value });
}

/** An HTTP server definition. */
export function definition(
  name: string,
  url: string,
  more: Partial<AggregatorDefinition> = {},
): AggregatorDefinition {
  return {
    name,
    url,
    headers: {},
    auth: undefined,
    enabled: true,
    source: "profile",
    unsupported_stdio: false,
    ...more,
  };
}
