/**
 * Runs a published MCP server under this Deno: `mcp_published.ts everything streamableHttp`.
 * Those that speak stdio only are run behind a bridge: `mcp_published.ts bridge PORT memory`
 * serves one session by Streamable HTTP.
 */
// @ts-types="@modelcontextprotocol/sdk/client/stdio"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
// @ts-types="@modelcontextprotocol/sdk/server/webStandardStreamableHttp"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import process from "node:process";
import { fileURLToPath } from "node:url";

const [name, ...args] = Deno.args;
process.argv.splice(2, process.argv.length, ...args);
switch (name) {
  case "everything":
    await import("@modelcontextprotocol/server-everything/dist/index.js");
    break;
  case "memory":
    await import("@modelcontextprotocol/server-memory/dist/index.js");
    break;
  case "filesystem":
    await import("@modelcontextprotocol/server-filesystem/dist/index.js");
    break;
  case "bridge":
    await bridge(Number(args[0]), args.slice(1));
}

/** Messages pass as they are: the server itself is what is tested. */
async function bridge(port: number, server: string[]): Promise<void> {
  const flags = ["run", "-A", "--quiet", "--config", new URL("../../deno.json", import.meta.url).pathname];
  const stdio = new StdioClientTransport({
    command: Deno.execPath(),
    args: [...flags, fileURLToPath(import.meta.url), ...server],
    env: Deno.env.toObject(),
    stderr: "inherit",
  });
  const http = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => crypto.randomUUID(),
  });
  http.onmessage = (message) => stdio.send(message);
  stdio.onmessage = (message) => {
    const related = "id" in message && !("method" in message) ? { relatedRequestId: message.id } : undefined;
    http.send(message, related);
  };
  await stdio.start();
  await http.start();
  Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, (request) => http.handleRequest(request));
}
