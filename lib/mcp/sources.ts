import type { McpServers } from "../profile/mcp.ts";
import type { AggregatorDefinition } from "./definition.ts";

/** `[mcp.*]` of a corp.toml: servers of its own, or the words that switch a profile's server off. */
export type CorpMcp = Record<string, McpServers[string] | { enabled: false }>;

/**
 * The servers of a session in trust order: corp, then profile (spec.md, "Namespacing" 4). A corp server cannot be
 * replaced or removed by a profile, and one that corp switched off stays off. Built-in servers are not here: they live
 * in the host process. The name of a definition is the server's id, because it is what its tools are called by.
 */
export function definitionsOf(profile: McpServers, corp: CorpMcp = {}): AggregatorDefinition[] {
  const definitions: AggregatorDefinition[] = [];
  for (const [id, server] of Object.entries(corp)) {
    if ("name" in server && !server.builtin) definitions.push(definitionOf(id, server, "corp"));
  }
  for (const [id, server] of Object.entries(profile)) {
    const forced = corp[id];
    if (server.builtin || (forced && "name" in forced)) continue;
    const definition = definitionOf(id, server, "profile");
    definitions.push(forced ? { ...definition, enabled: false, source: "corp" } : definition);
  }
  return definitions;
}

function definitionOf(name: string, server: McpServers[string], source: string): AggregatorDefinition {
  const isHttp = (server.transport ?? (server.url ? "http" : "stdio")) === "http";
  return {
    name,
    url: isHttp ? server.url ?? "" : "",
    headers: server.headers ?? {},
    auth: server.auth,
    enabled: server.enabled,
    source,
    unsupported_stdio: !isHttp,
  };
}
