/** MCP on standard input and output, as an agent starts it. */
import process from "node:process";
// @ts-types="@modelcontextprotocol/sdk/server/stdio"
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import type { Host } from "./host.ts";
import { makeServer } from "./server.ts";

/** Serves until the agent closes standard input, and finishes what it has asked for by then. */
export async function serveStdio(host: Host): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    process.stdin.once("end", resolve);
    process.stdin.once("close", resolve);
  });
  const server = makeServer(host);
  await server.connect(new StdioServerTransport());
  await ended;
  // What was read last is passed on in later turns of the event loop, and so are answers.
  await nextTurn();
  await host.idle();
  await nextTurn();
  await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
  await server.close();
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
