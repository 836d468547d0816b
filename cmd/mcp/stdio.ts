/** MCP on standard input and output, started by an agent. */
// @ts-types="@modelcontextprotocol/sdk/server/stdio"
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import process from "node:process";
import type { Host } from "./host.ts";
import { makeServer } from "./server.ts";

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
