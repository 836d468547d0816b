/**
 * The one program of sbx: argv[0], or else the first argument, picks the role.
 *
 * The role's file is named by a computed specifier, and Node's layer is not touched: Deno reads every module that a
 * written import names before it runs anything, and a program as small as `sbx version` would wait for all of them.
 * cmd/all.ts names them for `deno compile`.
 */
const ROLES = ["service", "process", "gateway", "admin", "aggregator"];
/** By argv[0] alone: as a first argument it is a command of the CLI. */
const NAMED = [...ROLES, "mcp"];

const invoked = /(?:^|\/)sbx-(?:mcp-)?(\w+)$/.exec(await argv0())?.[1];
const named = invoked ?? ROLES.find((role) => role === Deno.args[0]);
const args = named && !invoked ? Deno.args.slice(1) : Deno.args;
const file = `./cmd/${named && NAMED.includes(named) ? named : "sbx"}/main.ts`;
const { main } = await import(file);
Deno.exit(await main(args));

/** The name that this program was started by; `Deno.execPath()` is the file behind it. */
async function argv0(): Promise<string> {
  if (Deno.build.os === "linux") return Deno.readTextFileSync("/proc/self/cmdline").split("\0", 1)[0];
  return (await import("node:process")).default.argv0;
}
