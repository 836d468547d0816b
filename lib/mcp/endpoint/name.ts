/** Names in guests' requests, split for the event (docs/design/contracts/08-mcp.md §8, "Namespacing"). */
import type { McpEvent } from "../../event/mod.ts";

/** The three names of an MCP event. */
export type Names = Pick<McpEvent["request"], "server_name" | "tool_name" | "namespaced_tool_name">;

/** Names of a request that concerns no single server. */
export const NO_NAMES: Names = { server_name: "", tool_name: "", namespaced_tool_name: "" };

/** Splits `<server>__<tool>` at the first `__`; a name without it has no server. */
export function namesOf(name: string): Names {
  const at = name.indexOf("__");
  return {
    server_name: at < 0 ? "" : name.slice(0, at),
    tool_name: at < 0 ? name : name.slice(at + 2),
    namespaced_tool_name: name,
  };
}

/** Splits `sbx://<server>/<original_uri>`; any other URI has no server. */
export function namesOfResource(uri: string): Names {
  const [, server_name = "", tool_name = uri] = /^sbx:\/\/([^/]*)\/([^]*)$/.exec(uri) ?? [];
  return { server_name, tool_name, namespaced_tool_name: uri };
}

/** Tests whether all three names of two requests are equal. */
export function sameNames(a: Names, b: Names): boolean {
  return a.server_name === b.server_name && a.tool_name === b.tool_name &&
    a.namespaced_tool_name === b.namespaced_tool_name;
}
