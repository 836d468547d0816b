/**
 * Server definitions: from corp and profile, and as the aggregator receives them
 * (docs/design/contracts/08-mcp.md §8).
 */
import { z } from "zod";
import { type CorpMcpServers, McpServers, transportOf } from "../config/profile/mcp/schema.ts";
import { SERVERS_MAX } from "./limit.ts";
import { foreignText, serverNameProblem } from "./name.ts";

const { headers, auth, url } = McpServers.valueType.shape;

/** Uses the header and credential rules of a profile, so that a definition cannot contain a secret. */
export const AggregatorDefinition = z.strictObject({
  name: z.string().superRefine((name, { addIssue }) => {
    const problem = serverNameProblem(name);
    if (problem) addIssue({ code: "custom", message: problem });
  }),
  url: z.union([z.literal(""), url.unwrap()]).default("").describe("empty for stdio servers"),
  headers: headers.unwrap().nullish().transform((value) => value ?? {}),
  auth: auth.unwrap().nullish().transform((value) => value ?? undefined),
  enabled: z.boolean().default(true).describe("disabled servers are skipped"),
  source: z.string().max(64).default("").describe("origin: corp, profile"),
  unsupported_stdio: z.boolean().default(false).describe("stdio only; the aggregator skips it"),
  stdio: z.boolean().optional().describe(
    "its program runs in a VM of its own; the aggregator has its input and output",
  ),
}).superRefine((definition, { addIssue }) => {
  if (definition.url || definition.unsupported_stdio || definition.stdio) return;
  addIssue({ code: "custom", path: ["url"], message: "is missing" });
});
export type AggregatorDefinition = z.output<typeof AggregatorDefinition>;

/** Valid definitions, and one message for each invalid one. */
export interface DefinitionList {
  /** in input order; the first definition of a name wins */
  definitions: AggregatorDefinition[];
  problems: string[];
}

/**
 * Checks each definition on its own: an invalid one does not affect the others.
 *
 * @returns `undefined` when `value` is not an array
 */
export function readDefinitions(value: unknown): DefinitionList | undefined {
  if (!Array.isArray(value)) return undefined;
  const valid = new Map<string, AggregatorDefinition>();
  const problems: string[] = [];
  for (const [at, entry] of value.entries()) {
    const { success, data, error } = AggregatorDefinition.safeParse(entry);
    const name = typeof entry?.name === "string" ? `"${foreignText(entry.name, 64)}"` : `#${at + 1}`;
    if (!success) {
      const { path, message } = error.issues[0];
      problems.push(`server ${name} is invalid: ${[...path, foreignText(message)].join(" ")}`);
    } else if (valid.has(data.name)) {
      problems.push(`server ${name} is defined twice; the first definition is used`);
    } else if (valid.size >= SERVERS_MAX) {
      problems.push(`server ${name} exceeds the limit of ${SERVERS_MAX} servers`);
    } else valid.set(data.name, data);
  }
  return { definitions: [...valid.values()], problems };
}

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

/**
 * Programs of the enabled stdio servers of {@linkcode definitionsOf}, by id. The
 * aggregator knows none of this.
 */
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
 * Tests whether the built-in server is on. An entry configures it by the id `local` or by `builtin = true`;
 * corp's entries count more than the profile's.
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
