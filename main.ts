/**
 * Entry of every role of sbx, selected by argv[0] or else by the first argument.
 *
 * The role's module is imported by a computed specifier, and Node's layer is not loaded: Deno reads every
 * module of a literal import before it runs anything, which would delay commands as small as `sbx version`.
 * cmd/all.ts names the modules for `deno compile`.
 */
import { usePrivateTemp } from "./lib/base/temp/mod.ts";

const ROLES = ["service", "process", "gateway", "admin", "aggregator", "live", "tray"];
/** Roles by argv[0]; as the first argument, `mcp` is a command of the CLI. */
const ROLES_BY_NAME = [...ROLES, "mcp"];

if (Deno.build.standalone) usePrivateTemp();
const roleByName = /(?:^|\/)sbx-(?:mcp-)?(\w+)$/.exec(await readArgv0())?.[1];
const role = roleByName ?? ROLES.find((name) => name === Deno.args[0]);
const args = role && !roleByName ? Deno.args.slice(1) : Deno.args;
const file = `./cmd/${role && ROLES_BY_NAME.includes(role) ? role : "sbx"}/main.ts`;
const { main } = await import(file);
Deno.exit(await main(args).catch(quietly));

/** Ends without a word where the reader of the output has closed it (`… | head -1`): 128 + SIGPIPE. */
function quietly(error: unknown): number {
  if (error instanceof Deno.errors.BrokenPipe) return 141;
  throw error;
}

/** The name this program was started by; `Deno.execPath()` is the file behind it. */
async function readArgv0(): Promise<string> {
  if (Deno.build.os === "linux") return Deno.readTextFileSync("/proc/self/cmdline").split("\0", 1)[0];
  return (await import("node:process")).default.argv0;
}
