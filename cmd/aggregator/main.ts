/** sbx-mcp-aggregator: the client of every external MCP server, in a process that may do nothing else (spec.md, "Aggregator protocol"). */
import { asSbxError } from "../../lib/base/error/mod.ts";
import { boundedLog, confine, serveAggregator } from "../../lib/mcp/aggregator/mod.ts";
import { runAlone } from "../../lib/mcp/driver/alone.ts";
import { OutboundClient } from "../../lib/mcp/outbound/mod.ts";
import { selfCommand } from "../../lib/base/spawn/mod.ts";
import { log, say } from "../../lib/base/log/mod.ts";

const USAGE = `sbx-mcp-aggregator

Connects to MCP servers and offers what they have as one. It reads JSON from standard input, one object a line: first an
array of server definitions, then requests; it writes one answer a line. sbx-process starts it; started by hand it does
the same, without credentials.`;

/** Serves until `shutdown` or the end of standard input; answers the exit code. */
export async function main(args: string[]): Promise<number> {
  if (args.includes("--help")) {
    console.log(USAGE);
    return 0;
  }
  try {
    if (args.length === 2 && args[0] === "--outbound") return await serve(args[1]);
    if (args.length === 0) {
      const { cmd, args } = selfCommand("aggregator");
      return await runAlone([cmd, ...args]);
    }
    say(
      "sbx-mcp-aggregator: it takes no arguments (cli.usage)\nsbx-mcp-aggregator --help says what it reads",
    );
    return 2;
  } catch (error) {
    const known = asSbxError(error, "starting the MCP aggregator");
    say(`sbx-mcp-aggregator: ${known.message} (${known.code})`);
    if (known.code === "internal") log(known.cause);
    return 1;
  }
}

async function serve(socket: string): Promise<number> {
  const tell = boundedLog((line) => say(`sbx-mcp-aggregator: ${line}`));
  const outbound = new OutboundClient(await Deno.connect({ transport: "unix", path: socket }));
  // What goes wrong in a client, and nobody awaits, must not end the others.
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    tell(`unhandled: ${event.reason}`);
  });
  if (!await confine()) tell("the kernel has no filter for this process; Deno's permissions confine it");
  const served = serveAggregator({ input: Deno.stdin, output: Deno.stdout }, { outbound, log: tell });
  // Without its way out it is of no use, and whoever started it will start another.
  const cut = outbound.closed.then(() => 1);
  return await Promise.race([served.then(() => 0), cut]);
}
