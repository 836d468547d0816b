/**
 * Writes the rules of the built-in profiles of agents from `[agent.hosts]` of each, and the machine that they
 * share: deno run -A scripts/profile_rules.ts
 */
import { parseToml } from "../lib/base/toml/mod.ts";
import HOSTS from "./profile_hosts.json" with { type: "json" };

const DIR = new URL("../lib/config/profile/builtin/", import.meta.url);
/** Longest line of a list, in characters. */
const LINE_MAX = 104;

/** Hosts of an agent, as `[agent.hosts]` has them. */
interface AgentHosts {
  models: string[];
  own?: string[];
  login?: string[];
  reports?: string[];
}

/** A list of texts, the same in TOML and in CEL. */
function list(words: readonly string[]): string {
  const lines = [""];
  for (const word of words.map((word) => JSON.stringify(word))) {
    const line = `${lines.at(-1)} ${word},`;
    if (line.length + 1 > LINE_MAX) lines.push(` ${word},`);
    else lines[lines.length - 1] = line;
  }
  const whole = lines.join("").slice(1, -1);
  return whole.length < 60
    ? `[${whole}]`
    : `[\n${lines.map((line) => ` ${line}`).join("\n").slice(0, -1)}\n]`;
}

function rule(id: string, name: string, action: string, match: string, priority?: number): string {
  const quoted = match.includes("\n") ? `'''\n${match}'''` : `'${match}'`;
  return `[profiles.rules.${id}]
name = "${name}"
action = "${action}"
${priority === undefined ? "" : `priority = ${priority}\n`}match = ${quoted}
`;
}

const inDomains = (hosts: readonly string[]) =>
  hosts.map((host) => `in_domain(http.request.host, "${host}") ||\nin_domain(dns.request.qname, "${host}")`)
    .join(" ||\n");

/** Condition of a `host/path` and every path that begins with it. */
function atPath(place: string): string {
  const at = place.indexOf("/");
  const [host, path] = [place.slice(0, at), place.slice(at)].map((text) => JSON.stringify(text));
  return `http.request.host == ${host} && http.request.path.startsWith(${path})`;
}

/**
 * Rules that allow reading registries and repositories and everything at the agent's hosts, refuse its
 * reports and the models of others, and ask about the rest.
 */
export function agentRules({ models, own = [], login = [], reports = [] }: AgentHosts): string {
  const hosts = [...models, ...own];
  const named = [...hosts, ...login.map((place) => place.split("/")[0])];
  const others = HOSTS.models.filter((host) => !named.includes(host));
  return [
    rule(
      "read-registries",
      "Read package registries",
      "allow",
      `http.request.method in ["GET", "HEAD"] && http.request.host in ${list(HOSTS.registries)}`,
    ),
    rule(
      "fetch-repositories",
      "Fetch repositories",
      "allow",
      `http.request.host in ${list(HOSTS.git)} && http.request.git.service == "git-upload-pack"`,
    ),
    rule("provider", "Use the model provider", "allow", `http.request.host in ${list(hosts)}`),
    ...login.length > 0
      ? [rule("login", "Use the login of a subscription", "allow", login.map(atPath).join(" ||\n"))]
      : [],
    rule(
      "names",
      "Look up these hosts",
      "allow",
      `dns.request.qname in ${list([...HOSTS.registries, ...HOSTS.git, ...named])}`,
    ),
    ...reports.length > 0 ? [rule("telemetry", "No telemetry", "block", inDomains(reports))] : [],
    rule(
      "other-models",
      "No models of others",
      "block",
      `http.request.host in ${list(others)} ||\ndns.request.qname in ${list(others)}`,
    ),
    rule(
      "everything-else",
      "Everything else",
      "ask",
      "(has(http.request) && !is_private_host(http.request.host)) || has(dns.request)",
      900,
    ),
  ].join("\n");
}

/** The text of an agent's profile with the rules of its hosts. @returns undefined: it is no agent's */
export function withRules(text: string): string | undefined {
  const { agent } = parseToml(text, "profile.toml").value as { agent?: { hosts: AgentHosts } };
  if (!agent) return undefined;
  const head = text.split(/^\[profiles\.rules\./m)[0].trimEnd();
  return `${head}\n\n${agentRules(agent.hosts)}`;
}

if (import.meta.main) {
  for await (const { name } of Deno.readDir(DIR)) {
    const path = new URL(name, DIR);
    const text = await Deno.readTextFile(path);
    const written = withRules(text);
    if (written !== undefined && written !== text) await Deno.writeTextFile(path, written);
  }
}
