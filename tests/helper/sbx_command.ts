/** Commands of sbx that need no service: their arguments and their output. */
import { type Arguments, type Command, parseArguments } from "../../lib/base/args/mod.ts";
import { runDeno } from "./repo.ts";

/** Reads the arguments of a command, as sbx does. */
export function parse(command: Command, argv: string[]): Promise<Arguments> {
  return parseArguments({ program: "sbx", command }, argv);
}

/** Standard output of the CLI. */
export function runSbx(args: string[]): Promise<string> {
  return runDeno(["run", "-A", "--quiet", "main.ts", ...args]);
}
