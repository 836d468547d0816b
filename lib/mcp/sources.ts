import { type CorpMcpServers, type McpServers, transportOf } from "../config/profile/mcp/schema.ts";
import type { AggregatorDefinition } from "./definition.ts";

/**
 * The servers of a session in trust order: corp, then profile (docs/design/contracts/08-mcp.md §8). A profile
 * can neither replace nor remove a corp server, nor enable a server that corp disables. Built-in servers are
 * omitted: they run in the host process. The definition's name is the server id, the prefix of its tool
 * names.
 */
export function definitionsOf(profile: McpServers, corp: CorpMcpServers = {}): AggregatorDefinition[] {
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

/** Program of a stdio server. */
export interface Program {
  argv: string[];
  /** variables in addition to its VM's; secrets are refs */
  env: Record<string, string>;
}

/** Programs of the enabled stdio servers of {@linkcode definitionsOf}, by id. The aggregator knows none of this. */
export function programsOf(profile: McpServers, corp: CorpMcpServers = {}): Map<string, Program> {
  const programs = new Map<string, Program>();
  for (const { name, source, enabled, stdio } of definitionsOf(profile, corp)) {
    const server = source === "corp" ? corp[name] : profile[name];
    if (!enabled || !stdio || !("name" in server) || server.command === undefined) continue;
    programs.set(name, { argv: [server.command, ...server.args], env: server.env ?? {} });
  }
  return programs;
}

/** Id of the built-in server, which also prefixes its tools. */
export const LOCAL = "local";

/**
 * Tests whether the built-in server is on. An entry configures it by the id `local` or by `builtin = true`; corp's entries
 * count more than the profile's.
 */
export function isLocalEnabled(profile: McpServers, corp: CorpMcpServers = {}): boolean {
  const isBuiltin = (id: string) =>
    [corp[id], profile[id]].some((server) => server && "builtin" in server && server.builtin);
  const states = (servers: CorpMcpServers) =>
    Object.keys(servers).filter((id) => id === LOCAL || isBuiltin(id)).map((id) => servers[id].enabled);
  const forced = states(corp);
  return (forced.length > 0 ? forced : states(profile)).every(Boolean);
}

/** Tests whether the aggregator connects to a server. */
export function isServed({ enabled, unsupported_stdio }: AggregatorDefinition): boolean {
  return enabled && !unsupported_stdio;
}

function definitionOf(name: string, server: McpServers[string], source: string): AggregatorDefinition {
  const isHttp = transportOf(server) === "http";
  return {
    name,
    url: isHttp ? server.url ?? "" : "",
    headers: server.headers ?? {},
    auth: server.auth,
    enabled: server.enabled,
    source,
    unsupported_stdio: false,
    ...(!isHttp && { stdio: true }),
  };
}
