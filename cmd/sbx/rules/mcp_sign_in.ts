import type { McpLogin, McpLoginState } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";

/** Option of every `sbx mcp` command: the profile with the servers. */
export const PROFILE_OPTION: Option = {
  name: "profile",
  short: "p",
  value: "ID",
  about: "profile; default code",
};

/** Path of a profile's MCP routes. */
export function mcpPath(args: Arguments): string {
  return `/profiles/${segment(args.text("profile") ?? "code", "profile")}/mcp`;
}

/** `sbx mcp login` and `sbx mcp logout`. */
export const LOGIN_COMMANDS: Command[] = [
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
    examples: ["sbx mcp login tickets -p mine"],
    run: login,
  },
  {
    name: "mcp logout",
    usage: "SERVER [-p PROFILE] [--json]",
    summary: "forget the login at a server",
    options: [PROFILE_OPTION, JSON_OPTION],
    words: { min: 1, max: 1 },
    examples: ["sbx mcp logout tickets -p mine"],
    run: logout,
  },
];

async function login(args: Arguments): Promise<number> {
  const [server] = args.words;
  const client = await connect();
  const path = serverPath(args);
  const json = { scope: args.text("scope"), port: args.number("port", { min: 1024, max: 65535 }) };
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
