/** Configuration that registers sbx with an agent. */
import { SbxError } from "../../lib/base/error/mod.ts";
import { siblingProgram } from "../../lib/base/spawn/mod.ts";
import { didYouMean, quoteWord } from "../../lib/base/text/mod.ts";

/** Variables that select the installation of sbx; an agent may start its servers without them. */
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
      Object.entries(env).map(([name, value]) => `--env ${name}=${quoteWord(value)} `).join("")
    }-- ${[command, ...args].map(quoteWord).join(" ")}

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

/** @throws {SbxError} `usage.invalid`: unknown agent */
export async function configFor(agent: string): Promise<string> {
  const print = Object.hasOwn(AGENTS, agent) ? AGENTS[agent] : undefined;
  if (!print) {
    throw new SbxError("usage.invalid", `unknown agent "${agent}"`, {
      hint: [
        didYouMean(agent, Object.keys(AGENTS)),
        `--print-config takes one of ${Object.keys(AGENTS).join(", ")}`,
      ]
        .filter(Boolean).join(" "),
    });
  }
  const env = Object.fromEntries(
    VARIABLES.map((name) => [name, Deno.env.get(name)]).filter(([, value]) => value),
  );
  // The bare name where sbx-mcp is not installed beside this program: the agent finds it on its PATH.
  const command = await siblingProgram("sbx-mcp") ?? "sbx-mcp";
  return print({ command, args: [], env }).trimEnd();
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
