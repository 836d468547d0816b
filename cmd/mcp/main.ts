/** sbx-mcp: MCP server on the host through which an agent controls VMs (docs/guides/mcp-host.md). */
import { asSbxError } from "../../lib/base/error/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { parsePort } from "../../lib/client/mod.ts";
import { MCP_PORT } from "../../lib/base/port/mod.ts";
import { configFor } from "./config.ts";
import { Host } from "./host.ts";

const NAME = "sbx-mcp";
const USAGE = `${NAME} [--all] [--http [--port N]]
sbx-mcp --print-config claude|codex|vscode

MCP server for agents on this machine: they create VMs, run programs in them, read and write files, and see the decisions
of policy. Serves on standard input and output; with --http on http://127.0.0.1:${MCP_PORT}/mcp, with the gateway's token.
Agents can touch the VMs that they made through it, and with --all every VM.
--print-config prints an entry for an agent's configuration. Starts sbx when it is not running.
`;

type Invocation =
  | { kind: "stdio"; all: boolean }
  | { kind: "http"; all: boolean; port: number }
  | { kind: "config"; agent: string };

/** Serves until its client disconnects, or until SIGTERM. @returns the exit code */
export function main(args: string[]): Promise<number> {
  return runRole({ name: NAME, usage: USAGE, doing: "serving MCP", run }, args);
}

async function run(args: string[]): Promise<number> {
  try {
    const invocation = parseArguments(args);
    // A folder of another user is refused before an agent connects.
    home();
    if (invocation.kind === "config") console.log(await configFor(invocation.agent));
    else if (invocation.kind === "stdio") {
      await (await import("./server.ts")).serveStdio(new Host(invocation));
    } else await (await import("./http.ts")).serveHttp(new Host(invocation), invocation.port);
    return 0;
  } catch (error) {
    const { withoutSecretWords } = await import("../../lib/credential/mod.ts");
    throw withoutSecretWords(asSbxError(error, "serving MCP"), args);
  }
}

function parseArguments(args: string[]): Invocation {
  if (args[0] === "--print-config" && args.length <= 2) return { kind: "config", agent: args[1] ?? "" };
  const all = args.includes("--all");
  const [first, second, port, ...rest] = args.filter((arg) => arg !== "--all");
  if (first === undefined) return { kind: "stdio", all };
  if (first === "--http" && second === undefined) return { kind: "http", all, port: MCP_PORT };
  if (first === "--http" && second === "--port" && port !== undefined && rest.length === 0) {
    return { kind: "http", all, port: parsePort("--port", port) };
  }
  throw unknownArguments(NAME, args);
}
