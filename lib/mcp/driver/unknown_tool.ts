import { SbxError } from "../../base/error/mod.ts";
import type { ServerStatus } from "../entry.ts";
import { splitName } from "../name.ts";
import { foreignText } from "../text.ts";

/** Error of a call to a tool that no server lists; with the reason, where its server cannot be asked for its tools. */
export function unknownTool(name: string, statuses: readonly ServerStatus[]): SbxError {
  const problem = statuses.find((status) => status.name === splitName(name)?.server)?.last_error;
  const reason = problem === undefined ? "" : `: ${foreignText(problem)}`;
  return new SbxError("mcp.tool.not_found", `no MCP server offers a tool "${foreignText(name)}"${reason}`, {
    hint: "sbx mcp tools lists the available tools",
  });
}
