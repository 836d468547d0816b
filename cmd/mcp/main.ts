/** sbx-mcp: the host's MCP server, with which an agent drives VMs (docs/mcp-host.md). */
import { asSbxError, SbxError } from "../../lib/base/error/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { configFor } from "./config.ts";
import { Host, portOf } from "./host.ts";
import { log, say } from "../../lib/base/log/mod.ts";

/** TCP port of --http when none is named, beside the gateway's. */
const HTTP_PORT = 19223;
const USAGE = `sbx-mcp [--http [--port N]]
sbx-mcp --print-config claude|codex|vscode

An MCP server for agents on this machine: they create VMs, run programs in them, read and write files, and see what policy
decided. Speaks on standard input and output; with --http on http://127.0.0.1:${HTTP_PORT}/mcp, behind the gateway's token.
--print-config prints what to paste into an agent's configuration. Starts sbx where it does not run.
`;

type Asked = { kind: "help" | "version" | "stdio" } | { kind: "http"; port: number } | {
  kind: "config";
  agent: string;
};

/** Serves until its client has gone, or until SIGTERM; answers the exit code. */
export async function main(args: string[]): Promise<number> {
  try {
    const asked = read(args);
    if (asked.kind === "help") console.log(USAGE.trimEnd());
    else if (asked.kind === "version") console.log(`sbx-mcp ${VERSION}`);
    else if (asked.kind === "config") console.log(await configFor(asked.agent));
    else if (asked.kind === "http") await (await import("./http.ts")).serveHttp(new Host(), asked.port);
    else await (await import("./stdio.ts")).serveStdio(new Host());
    return 0;
  } catch (error) {
    const known = asSbxError(error, "serving MCP");
    say(`sbx-mcp: ${known.message} (${known.code})`);
    if (known.hint) say(known.hint);
    if (known.code === "internal") log(known.cause);
    return known.code === "usage.invalid" ? 2 : 1;
  }
}

function read([first, ...rest]: string[]): Asked {
  if (first === undefined) return { kind: "stdio" };
  if (rest.length === 0) {
    if (first === "--help" || first === "-h") return { kind: "help" };
    if (first === "--version") return { kind: "version" };
    if (first === "--http") return { kind: "http", port: HTTP_PORT };
  }
  if (first === "--http" && rest[0] === "--port" && rest.length === 2) {
    return { kind: "http", port: portOf("--port", rest[1]) };
  }
  if (first === "--print-config" && rest.length <= 1) return { kind: "config", agent: rest[0] ?? "" };
  throw new SbxError("usage.invalid", `unknown arguments: ${[first, ...rest].join(" ")}`, {
    hint: "sbx-mcp --help says what there is",
  });
}
