import type {
  McpCallResult,
  McpChange,
  McpChanges,
  McpRefreshed,
  McpServerList,
  McpToolList,
} from "../../../lib/api/mcp.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { counted, plain, print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "mcp",
  usage: "servers | tools | call SERVER__TOOL [ARGUMENTS] | refresh SERVER | diff | approve SERVER__TOOL",
  summary:
    "the MCP servers of a profile: what they offer, calling them through policy, and tools that changed",
  options: [
    { name: "profile", short: "p", value: "ID", about: "of this profile; default code" },
    { name: "vm", value: "NAME", about: "call: through this VM's policy and ledger" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 3 },
  examples: [
    "sbx mcp servers -p mine",
    'sbx mcp call -p mine github__search_issues \'{"query": "is:open"}\'',
    "sbx mcp diff -p mine",
    "sbx mcp approve -p mine github__search_issues",
  ],
  async run(given) {
    const [verb, ...rest] = given.words;
    const known = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (!known || rest.length < known.min) throw usage(command, `sbx mcp takes ${command.usage}`);
    if (rest.length > known.max) {
      const hint = known.max === 0 ? `a profile is named by -p: sbx mcp ${verb} -p ${rest[0]}` : undefined;
      throw usage(command, `"${rest[known.max]}" is one word too many`, hint);
    }
    return await known.run(await connect(), given, ...rest);
  },
};

interface Verb {
  min: number;
  max: number;
  run(client: Client, given: Given, ...words: string[]): Promise<number>;
}

const VERBS: Record<string, Verb> = {
  servers: { min: 0, max: 0, run: servers },
  tools: { min: 0, max: 0, run: tools },
  call: { min: 1, max: 2, run: call },
  refresh: { min: 1, max: 1, run: refresh },
  diff: { min: 0, max: 0, run: diff },
  approve: { min: 1, max: 1, run: approve },
};

async function servers(client: Client, given: Given): Promise<number> {
  const answer = await client.json<McpServerList>("GET", `${pathOf(given)}/servers/list`);
  if (given.on("json")) await printJson(answer);
  else if (answer.servers.length === 0) {
    await print("no MCP servers: [mcp.ID] of the profile, or of corp.toml, defines one");
  } else {
    const rows = answer.servers.map(({ name, source, enabled, connected, tool_count, url, last_error }) => [
      name,
      source,
      connected ? "connected" : enabled ? "not connected" : "disabled",
      String(tool_count),
      url,
      last_error ?? "",
    ]);
    await print(table(["SERVER", "FROM", "STATE", "TOOLS", "URL", ""], rows));
  }
  return 0;
}

async function tools(client: Client, given: Given): Promise<number> {
  const { servers } = await client.json<McpServerList>("GET", `${pathOf(given)}/servers/list`);
  const lists = await Promise.all(
    servers.map(({ name }) =>
      client.json<McpToolList>("GET", `${pathOf(given)}/servers/${segment(name)}/tools/list`)
    ),
  );
  const all = lists.flatMap(({ tools }) => tools);
  if (given.on("json")) await printJson({ tools: all });
  else if (all.length === 0) await print("no tools: sbx mcp servers says which servers are connected");
  else {
    const rows = all.map(({ namespaced_name, pin_changed, description }) => [
      namespaced_name,
      pin_changed ? "held back: sbx mcp diff" : "",
      description.split("\n")[0].slice(0, 80),
    ]);
    await print(table(["TOOL", "", "DESCRIPTION"], rows));
  }
  return 0;
}

/** Exit 1 when the tool says that it failed. */
async function call(client: Client, given: Given, name: string, text = "{}"): Promise<number> {
  const json = { arguments: argumentsOf(text), vm: given.text("vm") };
  const { result } = await client.json<McpCallResult>("POST", `${pathOf(given)}${toolPath(name)}/call`, {
    json,
  });
  if (given.on("json")) await printJson(result);
  else {
    for (const item of result.content as { type: string; text?: string }[] ?? []) {
      await print(item.type === "text" ? plain(item.text ?? "", true) : JSON.stringify(item));
    }
  }
  return result.isError === true ? 1 : 0;
}

async function refresh(client: Client, given: Given, server: string): Promise<number> {
  const path = `${pathOf(given)}/servers/${segment(server)}/refresh`;
  const answer = await client.json<McpRefreshed>("POST", path);
  if (given.on("json")) await printJson(answer);
  else await print(`${counted(answer.instances, "running VM")} connected anew`);
  return answer.success ? 0 : 1;
}

async function diff(client: Client, given: Given): Promise<number> {
  const { changes } = await client.json<McpChanges>("GET", `${pathOf(given)}/changes`);
  if (given.on("json")) await printJson({ changes });
  else await print(changes.length ? changes.map(changeText).join("\n\n") : "every tool is what was approved");
  return 0;
}

async function approve(client: Client, given: Given, name: string): Promise<number> {
  const change = await client.json<McpChange>("POST", `${pathOf(given)}${toolPath(name)}/approve`);
  if (given.on("json")) await printJson(change);
  else await print(`${name} is approved as it is now`);
  return 0;
}

function changeText({ server, tool, kind, before, seen_at, diff }: McpChange): string {
  const what = kind === "renamed" ? `was ${before.name}` : "changed";
  const fields = diff.map(({ field, text }) => `  ${field}: ${plain(text, true).replaceAll("\n", "\n    ")}`);
  return [`${server}__${tool} ${what}, seen ${seen_at}`, ...fields].join("\n");
}

function pathOf(given: Given): string {
  return `/profiles/${segment(given.text("profile") ?? "code", "profile")}/mcp`;
}

/** @throws {SbxError} `usage.invalid` for a name without `__` */
function toolPath(name: string): string {
  const at = name.indexOf("__");
  if (at <= 0) {
    throw usage(command, `"${name}" is no tool`, "a tool is SERVER__TOOL; sbx mcp tools lists them");
  }
  return `/servers/${encodeURIComponent(name.slice(0, at))}/tools/${encodeURIComponent(name.slice(at + 2))}`;
}

function argumentsOf(text: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch { /* said below */ }
  throw new SbxError("usage.invalid", "the arguments are no JSON object", {
    hint: `such as '{"query": "text"}'`,
  });
}
