/**
 * sbx-mcp-aggregator: client of every external MCP server, in a process without other permissions
 * (docs/design/contracts/08-mcp.md §8).
 */
import { log } from "../../lib/base/log/mod.ts";
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { selfCommand } from "../../lib/base/spawn/mod.ts";
import { boundedLog, confine, runAlone, serveAggregator } from "../../lib/mcp/aggregator/mod.ts";
import { OutboundClient } from "../../lib/mcp/outbound/mod.ts";

const NAME = "sbx-mcp-aggregator";
const USAGE = `${NAME}

Connects to MCP servers and serves their tools, resources and prompts as one. Reads JSON from standard input, one value
per line: first an array of server definitions, then requests; writes one answer per line. sbx-process starts it; started
by hand it works the same way, without credentials.`;

/** Serves until `shutdown` or the end of standard input. @returns the exit code */
export function main(args: string[]): Promise<number> {
  return runRole({ name: NAME, usage: USAGE, doing: "starting the MCP aggregator", run }, args);
}

async function run(args: string[]): Promise<number> {
  if (args.length === 2 && args[0] === "--outbound") return await serve(args[1]);
  if (args.length > 0) throw unknownArguments(NAME, args);
  const { cmd, args: rest } = selfCommand("aggregator");
  return await runAlone([cmd, ...rest]);
}

async function serve(socket: string): Promise<number> {
  const warn = boundedLog((line) => log.warn(`sbx-mcp-aggregator: ${line}`));
  const debug = boundedLog((line) => log.debug(`sbx-mcp-aggregator: ${line}`));
  const outbound = new OutboundClient(await Deno.connect({ transport: "unix", path: socket }));
  // An unhandled rejection in one client must not end the others.
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    warn(`unhandled: ${event.reason}`);
  });
  if (!await confine()) warn("no kernel filter is available; only Deno's permissions confine this process");
  const serving = serveAggregator({ input: Deno.stdin, output: Deno.stdout }, { outbound, log: warn, debug });
  // Without its way to the network it is of no use; the parent starts another.
  const disconnected = outbound.closed.then(() => 1);
  return await Promise.race([serving.then(() => 0), disconnected]);
}
