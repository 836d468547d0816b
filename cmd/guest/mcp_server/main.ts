/**
 * sbx-mcp-server: the MCP server of this VM, on stdin and stdout, that any agent's configuration can name:
 *
 *     {"mcpServers": {"sbx": {"command": "sbx-mcp-server"}}}
 *
 * It holds nothing itself: the servers are outside, and what may be asked of them is decided on the host.
 */
import { HOST_CID, PORTS } from "../../../lib/guest/messages.ts";
import { FrameChannel } from "../../../lib/base/wire/channel.ts";
import { bridge, MESSAGE_LIMIT } from "./bridge.ts";

const ABOUT = `sbx-mcp-server

An MCP server on standard input and output, for the agents in this VM: it passes their messages on to the host, which
offers the tools of every MCP server of the VM's profile. It takes no arguments.
`;

if (Deno.args.length > 0) {
  const help = Deno.args[0] === "--help" || Deno.args[0] === "-h";
  if (help) console.log(ABOUT.trimEnd());
  else fail(`unknown argument ${Deno.args[0]}`, "it takes none; --help says what it is");
  Deno.exit(0);
}

let conn: Deno.Conn;
try {
  conn = await Deno.connect({ transport: "vsock", cid: HOST_CID, port: PORTS.mcp });
} catch {
  fail(
    `the host has no MCP endpoint for this VM (vsock port ${PORTS.mcp})`,
    "on the host, sbx logs NAME says why; an sbx that is older than this image has none",
  );
}

try {
  await bridge({
    input: Deno.stdin,
    output: Deno.stdout,
    channel: new FrameChannel(conn, MESSAGE_LIMIT),
    processName: parentName(),
  });
} catch (error) {
  // Whoever started this has gone: there is nobody to tell.
  if (error instanceof Deno.errors.BrokenPipe) Deno.exit(0);
  fail(
    `the connection to the host is lost: ${(error as Error).message}`,
    "start this server again; on the host, sbx logs NAME says more",
  );
}
Deno.exit(0);

/** The program that started this one: the agent. */
function parentName(): string {
  try {
    return Deno.readTextFileSync(`/proc/${Deno.ppid}/comm`).trim();
  } catch {
    return "";
  }
}

function fail(what: string, hint: string): never {
  console.error(`sbx-mcp-server: ${what}\n  ${hint}`);
  Deno.exit(1);
}
