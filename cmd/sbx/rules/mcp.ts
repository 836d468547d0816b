import type {
  McpCallResult,
  McpChange,
  McpChanges,
  McpLogin,
  McpLoginState,
  McpRefreshed,
  McpServerList,
  McpToolList,
} from "../../../lib/client/api/mod.ts";
import {
  type Arguments,
  type Command,
  type CommandGroup,
  JSON_OPTION,
  type Option,
} from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { isObject } from "../../../lib/base/object/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment, toolSegment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { formatJson, note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { table, usageError, UTC_NOTE } from "../output.ts";

/** Option of every `sbx mcp` command: the profile with the servers. */
const PROFILE_OPTION: Option = {
  name: "profile",
  short: "p",
  value: "ID",
  about: "profile; default code",
  completes: "profiles",
};

/** `sbx mcp login` and `sbx mcp logout`. */
const LOGIN_COMMANDS: Command[] = [
  {
    name: "mcp login",
    usage: "SERVER [-p PROFILE] [--scope TEXT] [--port PORT] [--json]",
    summary: "log in at a server that asks for it, in the browser",
    notes: [
      "The browser has to run on this machine. The URL is a secret until the login ends.",
      "The tokens stay in the credential store of this machine.",
    ],
    options: [
      PROFILE_OPTION,
      { name: "scope", value: "TEXT", about: "scopes besides the ones that the server asks for" },
      { name: "port", value: "PORT", about: "port of 127.0.0.1 for the browser's return; default any" },
      JSON_OPTION,
    ],
    words: { min: 1, max: 1 },
    completes: ["mcp servers"],
    examples: ["sbx mcp login tickets -p mine"],
    run: login,
  },
  {
    name: "mcp logout",
    usage: "SERVER [-p PROFILE] [--json]",
    summary: "forget the login at a server",
    options: [PROFILE_OPTION, JSON_OPTION],
    words: { min: 1, max: 1 },
    completes: ["mcp servers"],
    examples: ["sbx mcp logout tickets -p mine"],
    run: logout,
  },
];

const CALL: Command = {
  name: "mcp call",
  usage: "SERVER__TOOL [ARGUMENTS] [-p PROFILE] [--vm NAME] [--json]",
  summary: "call a tool through a VM's policy and ledger",
  notes: ["The exit code is 1 if the tool reports an error."],
  options: [
    PROFILE_OPTION,
    {
      name: "vm",
      value: "NAME",
      about: "VM whose policy and ledger apply; default a running VM of the profile",
      completes: "vms",
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 2 },
  completes: ["mcp tools", []],
  examples: [`sbx mcp call -p mine github__search_issues '{"query": "is:open"}'`],
  run: (args) => call(args, args.words[0], args.words[1]),
};

/** Characters of a definition's hash that `sbx mcp diff` shows, the fewest that approve it. */
const HASH_SHOWN = 8;
const HASH = /^[0-9a-f]{8,64}$/;

const APPROVE: Command = {
  name: "mcp approve",
  usage: "SERVER__TOOL HASH [-p PROFILE] [--json]",
  summary: "approve a changed tool, by the hash that sbx mcp diff showed",
  options: [PROFILE_OPTION, JSON_OPTION],
  words: { min: 2, max: 2 },
  completes: ["mcp tools", []],
  examples: ["sbx mcp approve -p mine github__search_issues 9c1d2e7a"],
  run: (args) => approve(args, args.words[0], args.words[1]),
};

export const command: CommandGroup = {
  name: "mcp",
  summary: "list MCP servers and tools, call tools, approve changed ones",
  subcommands: [
    {
      name: "mcp servers",
      usage: "[-p PROFILE] [--json]",
      summary: "list the servers of a profile with their states",
      options: [PROFILE_OPTION, JSON_OPTION],
      words: { min: 0, max: 1 },
      examples: ["sbx mcp servers -p mine"],
      run: (args) => servers(rejectProfileWord("servers", args)),
    },
    {
      name: "mcp tools",
      usage: "[-p PROFILE] [--json]",
      summary: "list the tools of the servers",
      options: [PROFILE_OPTION, JSON_OPTION],
      words: { min: 0, max: 1 },
      examples: ["sbx mcp tools -p mine"],
      run: (args) => tools(rejectProfileWord("tools", args)),
    },
    CALL,
    ...LOGIN_COMMANDS,
    {
      name: "mcp refresh",
      usage: "SERVER [-p PROFILE] [--json]",
      summary: "reload a server's definition and reconnect it in every VM of the profile",
      options: [PROFILE_OPTION, JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["mcp servers"],
      examples: ["sbx mcp refresh github -p mine"],
      run: (args) => refresh(args, args.words[0]),
    },
    {
      name: "mcp diff",
      usage: "[-p PROFILE] [--json]",
      summary: "show the changes of tools since their approval",
      notes: [UTC_NOTE],
      options: [PROFILE_OPTION, JSON_OPTION],
      words: { min: 0, max: 1 },
      examples: ["sbx mcp diff -p mine"],
      run: (args) => diff(rejectProfileWord("diff", args)),
    },
    APPROVE,
  ],
};

async function servers(args: Arguments): Promise<number> {
  const client = await connect();
  const answer = await client.json<McpServerList>("GET", `${mcpPath(args)}/servers/list`);
  if (args.has("json")) await printJson(answer);
  else if (answer.servers.length === 0) {
    await print("no MCP servers; define one as [mcp.ID] in the profile or in corp.toml");
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

async function tools(args: Arguments): Promise<number> {
  const client = await connect();
  const { servers } = await client.json<McpServerList>("GET", `${mcpPath(args)}/servers/list`);
  const lists = await Promise.all(
    servers.map(({ name }) =>
      client.json<McpToolList>("GET", `${mcpPath(args)}/servers/${segment(name)}/tools/list`)
    ),
  );
  const all = lists.flatMap(({ tools }) => tools);
  if (args.has("json")) await printJson({ tools: all });
  else if (all.length === 0) await print("no tools; sbx mcp servers shows which servers are connected");
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

/** @returns exit code 1 if the tool reports an error */
async function call(args: Arguments, name: string, text = "{}"): Promise<number> {
  const client = await connect();
  const json = { arguments: parseToolArguments(text), vm: args.text("vm") };
  const { result } = await client.json<McpCallResult>("POST", `${mcpPath(args)}${toolPath(name)}/call`, {
    json,
  });
  if (args.has("json")) await printJson(result);
  else {
    for (const item of result.content as { type: string; text?: string }[] ?? []) {
      await print(item.type === "text" ? item.text ?? "" : formatJson(item));
    }
  }
  return result.isError === true ? 1 : 0;
}

async function refresh(args: Arguments, server: string): Promise<number> {
  const client = await connect();
  const path = `${mcpPath(args)}/servers/${segment(server)}/refresh`;
  const answer = await client.json<McpRefreshed>("POST", path);
  if (args.has("json")) await printJson(answer);
  else await print(`reconnected in ${count(answer.instances, "running VM")}`);
  return answer.success ? 0 : 1;
}

async function diff(args: Arguments): Promise<number> {
  const client = await connect();
  const { changes } = await client.json<McpChanges>("GET", `${mcpPath(args)}/changes`);
  if (args.has("json")) await printJson({ changes });
  else await print(changes.length ? changes.map(formatChange).join("\n\n") : "no changed tools");
  return 0;
}

async function approve(args: Arguments, name: string, hash: string): Promise<number> {
  if (!HASH.test(hash)) {
    throw usageError(APPROVE, `invalid hash "${hash}"`, "sbx mcp diff shows the hash of each change");
  }
  const client = await connect();
  const { changes } = await client.json<McpChanges>("GET", `${mcpPath(args)}/changes`);
  const shown = changes.find(({ server, tool }) => `${server}__${tool}` === name)?.after_hash;
  const json = { after_hash: shown?.startsWith(hash) ? shown : hash };
  const change = await client.json<McpChange>("POST", `${mcpPath(args)}${toolPath(name)}/approve`, { json });
  if (args.has("json")) await printJson(change);
  else await print(`approved ${name} as it was shown`);
  return 0;
}

function formatChange({ server, tool, kind, before, after_hash, seen_at, diff }: McpChange): string {
  const change = kind === "renamed" ? `was ${before.name}` : "changed";
  const fields = diff.map(({ field, text }) => `  ${field}: ${plain(text, true).replaceAll("\n", "\n    ")}`);
  const hash = after_hash.slice(0, HASH_SHOWN);
  return [`${server}__${tool} ${change}, seen ${seen_at}, hash ${hash}`, ...fields].join("\n");
}

/** Rejects a profile given as a word, with a hint at `-p`. @throws {SbxError} `usage.invalid` */
function rejectProfileWord(verb: string, args: Arguments): Arguments {
  const [word] = args.words;
  if (word === undefined) return args;
  throw new SbxError("usage.invalid", `unexpected argument "${word}"`, {
    hint: `give a profile with -p: sbx mcp ${verb} -p ${word}`,
  });
}

/** @throws {SbxError} `usage.invalid`: a name without `__` */
function toolPath(name: string): string {
  const at = name.indexOf("__");
  if (at <= 0) {
    throw new SbxError("usage.invalid", `invalid tool name "${name}"`, {
      hint: "give SERVER__TOOL; sbx mcp tools lists the tools",
    });
  }
  return `/servers/${encodeURIComponent(name.slice(0, at))}/tools/${toolSegment(name.slice(at + 2))}`;
}

function parseToolArguments(text: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text);
    if (isObject(value)) return value;
  } catch { /* reported below */ }
  throw new SbxError("usage.invalid", "invalid tool arguments: not a JSON object", {
    hint: `give an object, such as '{"query": "text"}'`,
  });
}

/** Path of a profile's MCP routes. */
function mcpPath(args: Arguments): string {
  return `/profiles/${segment(args.text("profile") ?? "code", "profile")}/mcp`;
}

async function login(args: Arguments): Promise<number> {
  const [server] = args.words;
  const json = { scope: args.text("scope"), port: args.number("port", { min: 1024, max: 65535 }) };
  const client = await connect();
  const path = serverPath(args);
  const { url, issuer, scope } = await client.json<McpLogin>("POST", `${path}/login`, { json });
  note(`open this URL in a browser of this machine, and log in at ${issuer}:`);
  note(url);
  if (scope !== undefined) note(`${server} asks for: ${scope}`);
  let state: McpLoginState;
  do {
    state = await client.json<McpLoginState>("GET", `${path}/login`);
  } while (state.state === "waiting");
  if (args.has("json")) await printJson(state);
  else await print(state.state === "logged_in" ? `logged in at ${server}` : `not logged in at ${server}`);
  return state.state === "logged_in" ? 0 : 1;
}

async function logout(args: Arguments): Promise<number> {
  const client = await connect();
  const state = await client.json<McpLoginState>("POST", `${serverPath(args)}/logout`);
  await (args.has("json") ? printJson(state) : print(`logged out of ${args.words[0]}`));
  return 0;
}

function serverPath(args: Arguments): string {
  return `${mcpPath(args)}/servers/${segment(args.words[0])}`;
}
