// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { VERSION } from "../../lib/base/version/mod.ts";
import type { Host } from "./host.ts";
import { offer } from "./tool.ts";
import { ASK_TOOLS } from "./tools/ask.ts";
import { FILE_TOOLS } from "./tools/file.ts";
import { MCP_TOOLS } from "./tools/mcp.ts";
import { JOB_TOOLS } from "./tools/job.ts";
import { PORT_TOOLS } from "./tools/port.ts";
import { PROGRAM_TOOLS } from "./tools/program.ts";
import { RECORD_TOOLS } from "./tools/record.ts";
import { SNAPSHOT_TOOLS } from "./tools/snapshot.ts";
import { VM_TOOLS } from "./tools/vm.ts";
// @ts-types="@modelcontextprotocol/sdk/server/stdio"
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import process from "node:process";

const INSTRUCTIONS =
  "sbx runs Linux VMs on this machine for work that should not touch it. `run` runs one program in a new VM; `create`, " +
  "`exec` and `delete` are for work in several steps. A policy decides on every access of a VM; when something is refused, " +
  "denied in the result of `exec`, `events` with denied: true and `why` name the rule. You cannot change rules: ask the person you work for.";

/** All tools, in the order of the list. */
export const TOOLS = [
  ...VM_TOOLS,
  ...PROGRAM_TOOLS,
  ...JOB_TOOLS,
  ...PORT_TOOLS,
  ...FILE_TOOLS,
  ...SNAPSHOT_TOOLS,
  ...RECORD_TOOLS,
  ...ASK_TOOLS,
  ...MCP_TOOLS,
];

/** Makes the MCP server of one client. */
export function makeServer(host: Host): McpServer {
  const info = { name: "sbx", title: "sbx: virtual machines for agents", version: VERSION };
  const server = new McpServer(info, { instructions: INSTRUCTIONS });
  for (const tool of TOOLS) offer(server, host, tool);
  return server;
}

/** Serves until the agent closes standard input, and answers the requests received by then. */
export async function serveStdio(host: Host): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    process.stdin.once("end", resolve);
    process.stdin.once("close", resolve);
  });
  const server = makeServer(host);
  await server.connect(new StdioServerTransport());
  await ended;
  // The SDK delivers the last input, and the last answers, in later turns of the event loop.
  await nextTurn();
  await host.waitForIdle();
  await nextTurn();
  await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
  await server.close();
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
