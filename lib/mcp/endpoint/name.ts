/** Names of what guests use, taken apart for the event (spec.md, "Namespacing"). */
import type { McpEvent } from "../../event/mod.ts";

/** The three names that an MCP event holds. */
export type Names = Pick<McpEvent["request"], "server_name" | "tool_name" | "namespaced_tool_name">;

/** Of a request that is about no server, or about all of them. */
export const NO_NAMES: Names = { server_name: "", tool_name: "", namespaced_tool_name: "" };

/** `<server>__<tool>`, cut at the first `__`; a name without it is of no server. */
export function namesOf(name: string): Names {
  const at = name.indexOf("__");
  return {
    server_name: at < 0 ? "" : name.slice(0, at),
    tool_name: at < 0 ? name : name.slice(at + 2),
    namespaced_tool_name: name,
  };
}

/** `sbx://<server>/<original_uri>`; another URI is of no server. */
export function namesOfResource(uri: string): Names {
  const [, server_name = "", tool_name = uri] = /^sbx:\/\/([^/]*)\/([^]*)$/.exec(uri) ?? [];
  return { server_name, tool_name, namespaced_tool_name: uri };
}

/** Do two requests name the same thing, and each of its parts alike? */
export function sameNames(a: Names, b: Names): boolean {
  return a.server_name === b.server_name && a.tool_name === b.tool_name &&
    a.namespaced_tool_name === b.namespaced_tool_name;
}
