/**
 * snapshots: states of /workspace to go back to, from inside the VM. They are kept on the
 * host, which decides on each call.
 */
import { McpClient } from "../../../lib/machine/guest/mcp/mod.ts";
import { changesText, listText, madeText, type Restored, restoredText } from "./text.ts";

const ABOUT = `snapshots list
snapshots create [LABEL]
snapshots diff ID [ID]
snapshots restore ID [PATH…]

States of /workspace. The host makes some while files change. A restore removes files that came later; the replaced
state becomes a snapshot first. --json prints JSON.
`;

const isJson = Deno.args.includes("--json");
const [command, ...words] = Deno.args.filter((word) => word !== "--json");

Deno.exit(
  await run().catch((error: Error) => {
    console.error(`snapshots: ${error.message}`);
    return 1;
  }),
);

async function run(): Promise<number> {
  const is = (name: string, min: number, max: number) =>
    command === name && words.length >= min && words.length <= max;
  if (is("list", 0, 0)) return await call("list", {}, listText);
  if (is("create", 0, 1)) {
    return await call("create", words[0] === undefined ? {} : { label: words[0] }, madeText);
  }
  if (is("diff", 1, 2)) {
    return await call("diff", { from: words[0], ...(words[1] && { to: words[1] }) }, changesText);
  }
  if (is("restore", 1, Infinity)) {
    const [snapshot, ...paths] = words;
    return await call(
      "restore",
      { snapshot, ...(paths.length > 0 && { paths: paths.map(inWorkspace) }) },
      restoredText,
    );
  }
  const isHelp = command === undefined || command === "help" || command === "--help" || command === "-h";
  (isHelp ? console.log : console.error)(ABOUT.trimEnd());
  return isHelp ? 0 : 2;
}

async function call<T>(
  tool: string,
  args: Record<string, unknown>,
  text: (answer: T) => string,
): Promise<number> {
  using client = await McpClient.connect("snapshots");
  const answer = await client.call(`local__snapshot_${tool}`, args) as T;
  console.log(isJson ? JSON.stringify(answer) : text(answer));
  return tool === "restore" && (answer as Restored).failed.length > 0 ? 1 : 0;
}

/** A path as the shell's folder has it, below /workspace where that is. */
function inWorkspace(path: string): string {
  const cwd = Deno.cwd();
  const isInside = cwd === "/workspace" || cwd.startsWith("/workspace/");
  return path.startsWith("/") || !isInside ? path : `${cwd}/${path}`;
}
