/** What people paste to make sbx known to an agent. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SbxError } from "../../lib/base/error/mod.ts";

/** Variables that say which sbx is meant; an agent may start its servers without them. */
const VARIABLES = ["SBX_HOME", "SBX_RUN_DIR", "SBX_ASSETS_DIR", "SBX_PROFILES_DIR", "SBX_GATEWAY_PORT"];

interface Server {
  command: string;
  args: string[];
  env: Record<string, string>;
}

const AGENTS: Record<string, (server: Server) => string> = {
  claude: ({ command, args, env }) =>
    `# Claude Code: run this
claude mcp add --scope user sbx ${
      Object.entries(env).map(([name, value]) => `--env ${name}=${quoted(value)} `).join("")
    }-- ${[command, ...args].map(quoted).join(" ")}

# or put this into .mcp.json of a project, or Claude Desktop's claude_desktop_config.json
${json({ mcpServers: { sbx: { command, args, env } } })}`,
  codex: ({ command, args, env }) =>
    `# ~/.codex/config.toml
[mcp_servers.sbx]
command = ${JSON.stringify(command)}
args = ${JSON.stringify(args)}
tool_timeout_sec = 600
${
      Object.keys(env).length === 0
        ? ""
        : `\n[mcp_servers.sbx.env]\n${
          Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}\n`).join("")
        }`
    }`,
  vscode: ({ command, args, env }) =>
    `// .vscode/mcp.json of a project, or "MCP: Open User Configuration"
${json({ servers: { sbx: { type: "stdio", command, args, env } } })}`,
};

/** @throws SbxError `usage.invalid` */
export async function configFor(agent: string): Promise<string> {
  const print = Object.hasOwn(AGENTS, agent) ? AGENTS[agent] : undefined;
  if (!print) {
    throw new SbxError("usage.invalid", `"${agent}" is no agent whose configuration is known`, {
      hint: `--print-config is one of ${Object.keys(AGENTS).join(", ")}`,
    });
  }
  const set = VARIABLES.map((name) => [name, Deno.env.get(name)]).filter(([, value]) => value);
  return print({ command: await program(), args: [], env: Object.fromEntries(set) }).trimEnd();
}

/** Where this program is; its bare name where it is started in a way of somebody's own. */
async function program(): Promise<string> {
  const folder = Deno.build.standalone
    ? dirname(Deno.execPath())
    : join(dirname(fileURLToPath(import.meta.url)), "..", "..", "bin");
  const path = join(folder, "sbx-mcp");
  return await Deno.stat(path).then(() => path, () => "sbx-mcp");
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

/** A word for a POSIX shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
