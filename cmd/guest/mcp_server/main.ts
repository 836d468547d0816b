/**
 * sbx-mcp-server: MCP server of this VM on stdin and stdout. Configuration of an agent:
 *
 *     {"mcpServers": {"sbx": {"command": "sbx-mcp-server"}}}
 *
 * Only relays messages: the servers run outside the VM, and the host decides which calls are allowed.
 */
import type { FrameChannel } from "../../../lib/base/wire/mod.ts";
import { mcpChannel } from "../../../lib/machine/guest/mcp/mod.ts";
import { connectHost, PORTS } from "../../../lib/machine/guest/wire/mod.ts";
import { bridge } from "./bridge.ts";

const ABOUT = `sbx-mcp-server

MCP server on standard input and output for agents in this VM. Relays their messages to the host, which offers the tools
of every MCP server of the VM's profile. Takes no arguments.
`;

/**
 * Time between two attempts to reach the host again, in `ms`, and most of them: the
 * machine stands still meanwhile.
 */
const RETRY_MS = 100;
const RETRIES_MAX = 600;

if (Deno.args.length > 0) {
  const isHelp = Deno.args[0] === "--help" || Deno.args[0] === "-h";
  if (isHelp) console.log(ABOUT.trimEnd());
  else fail(`unknown argument ${Deno.args[0]}`, "sbx-mcp-server takes no arguments; --help describes it");
  Deno.exit(0);
}

let conn: Deno.Conn;
try {
  conn = await connectHost(PORTS.mcp);
} catch {
  fail(
    `the host has no MCP endpoint for this VM (vsock port ${PORTS.mcp})`,
    "on the host, read sbx logs NAME; an sbx older than this image has no endpoint",
  );
}

try {
  await bridge({
    input: Deno.stdin,
    output: Deno.stdout,
    channel: mcpChannel(conn),
    reconnect,
    processName: parentName(),
  });
} catch (error) {
  // The client has ended and cannot receive an error.
  if (error instanceof Deno.errors.BrokenPipe) Deno.exit(0);
  fail(
    `lost the connection to the host: ${(error as Error).message}`,
    "start this server again; on the host, read sbx logs NAME",
  );
}
Deno.exit(0);

/** Connects again after a suspension or a fork, once the machine has its vsock back. */
async function reconnect(): Promise<FrameChannel> {
  for (let attempt = 1;; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    try {
      return mcpChannel(await connectHost(PORTS.mcp));
    } catch (error) {
      if (attempt === RETRIES_MAX) throw error;
    }
  }
}

/** Name of the parent process, the agent. */
function parentName(): string {
  try {
    return Deno.readTextFileSync(`/proc/${Deno.ppid}/comm`).trim();
  } catch {
    return "";
  }
}

function fail(message: string, hint: string): never {
  console.error(`sbx-mcp-server: ${message}\n  ${hint}`);
  Deno.exit(1);
}
