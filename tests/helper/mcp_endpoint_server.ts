/** A real MCP server whose tools show what reached them. */
// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
// @ts-types="@modelcontextprotocol/sdk/shared/protocol"
import type { RequestHandlerExtra } from "@modelcontextprotocol/sdk/shared/protocol.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import type { CallToolResult, ServerNotification, ServerRequest } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import type { Parsed } from "./json.ts";

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>;

const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });

/** The server, and what its tools have been called with. */
export interface TestServer {
  server: McpServer;
  calls: { tool: string; args: unknown }[];
  /** settles when the call of `wait` that runs has seen that it is cancelled */
  cancelled: Promise<void>;
}

export function testServer(): TestServer {
  const server = new McpServer({ name: "test", version: "1.0.0" });
  const calls: TestServer["calls"] = [];
  const cancelled = Promise.withResolvers<void>();
  const tool = (name: string, inputSchema: z.ZodRawShape, run: (args: Parsed, extra: Extra) => unknown) =>
    server.registerTool(
      name,
      { description: `the tool ${name}`, inputSchema },
      async (args: Record<string, unknown>, extra: Extra) => {
        calls.push({ tool: name, args });
        return await run(args, extra) as CallToolResult;
      },
    );
  tool("shout", { text: z.string() }, ({ text: said }) => text(said.toUpperCase()));
  tool("delete_all", {}, () => text("deleted"));
  tool("deploy", { target: z.string() }, ({ target }) => text(`deployed ${target}`));
  tool("fail", {}, () => ({ ...text("it did not work"), isError: true }));
  tool("big", { bytes: z.int() }, ({ bytes }) => text("x".repeat(bytes)));
  tool(
    "image",
    {},
    () => ({ content: [{ type: "image", data: "AAAA".repeat(1000), mimeType: "image/png" }] }),
  );
  tool("wait", {}, (_, { signal }) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        cancelled.resolve();
        resolve(text("cancelled"));
      });
    }));
  tool("count", { to: z.int() }, async ({ to }, { _meta, sendNotification }) => {
    for (let progress = 1; progress <= to; progress++) {
      await sendNotification({
        method: "notifications/progress",
        params: { progressToken: _meta!.progressToken!, progress, total: to, message: `step ${progress}` },
      });
    }
    return text("counted");
  });
  server.registerResource(
    "readme",
    "file:///readme.md",
    { description: "a file", mimeType: "text/markdown" },
    (uri) => ({ contents: [{ uri: uri.href, text: "# hello" }] }),
  );
  server.registerResource(
    "user",
    new ResourceTemplate("user://{id}", { list: undefined }),
    {},
    (uri, { id }) => ({ contents: [{ uri: uri.href, text: `user ${id}` }] }),
  );
  server.registerPrompt(
    "greet",
    { description: "says hello", argsSchema: { name: z.string() } },
    ({ name }) => ({ messages: [{ role: "user", content: { type: "text", text: `hello ${name}` } }] }),
  );
  return { server, calls, cancelled: cancelled.promise };
}
