/** sbx: the command-line client. Each subcommand is a file that is loaded when it is used. */
import { asSbxError, SbxError } from "../../lib/base/error/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { COMMANDS, loadCommand } from "./commands/mod.ts";
import { printError } from "./output.ts";

/** Exit code of a call that cannot be meant. */
const USAGE = 2;
/** Exit code when the reader of our output went away: 128 + SIGPIPE. */
const BROKEN_PIPE = 141;

/** Runs the subcommand that the first word names; answers the exit code. */
export async function main(args: string[]): Promise<number> {
  let command: Command | undefined;
  try {
    command = await find(args[0]);
    const given = await parseArguments(command, args.slice(1));
    if (!given.on("help")) return await command.run(given);
    const { helpOf } = await import("./commands/help.ts");
    console.log(helpOf(command));
    return 0;
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return BROKEN_PIPE;
    const known = asSbxError(error, `sbx ${args[0] ?? ""}`.trim());
    printError(known, wantsJson(args));
    if (Deno.env.get("SBX_LOG") === "debug") console.error(known.cause);
    return known.code === "usage.invalid" ? USAGE : command?.failure ?? 1;
  }
}

async function find(word = "help"): Promise<Command> {
  const name = word === "--help" || word === "-h"
    ? "help"
    : word === "--version" || word === "-V"
    ? "version"
    : word;
  if (COMMANDS.includes(name)) return await loadCommand(name);
  const { nearest } = await import("../../lib/event/catalogue.ts");
  const letters = (text: string) => [...text].sort().join("");
  const near = nearest(name, COMMANDS) ?? COMMANDS.find((other) => letters(other) === letters(name));
  throw new SbxError("usage.invalid", `there is no command "${name}"`, {
    hint: near ? `did you mean sbx ${near}?` : "sbx help lists the commands",
  });
}

/** Also right when the arguments could not be read. */
function wantsJson(args: string[]): boolean {
  const end = args.indexOf("--");
  return (end < 0 ? args : args.slice(0, end)).includes("--json");
}
