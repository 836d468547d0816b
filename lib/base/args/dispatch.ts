import { SbxError } from "../error/mod.ts";
import { print } from "../print/mod.ts";
import { type Command, type CommandGroup, isGroup } from "./command.ts";
import { formatHelp, helpWidth } from "./help.ts";
import { findSubcommand, parseArguments } from "./parse.ts";

/** A program with commands. */
export interface Program {
  /** as typed, such as `sbx` */
  name: string;
  /**
   * Finds a command by its first word.
   *
   * @throws {SbxError} `usage.invalid`: unknown command
   */
  find(word: string | undefined): Promise<Command | CommandGroup>;
  /**
   * Reports an error.
   *
   * @param command the failed command; absent if the call did not name one
   * @returns the exit code
   */
  fail(error: unknown, command?: Command): number | Promise<number>;
}

/** Runs the command of a call, or prints its help. @returns the exit code */
export async function dispatch({ name, find, fail }: Program, argv: string[]): Promise<number> {
  let command: Command | undefined;
  try {
    const [word, ...rest] = argv;
    const entry = await find(word);
    const call = isGroup(entry) ? await findSubcommand(name, entry, rest) : { command: entry, rest };
    command = call.command;
    if (command) {
      const args = await parseArguments({ program: name, command }, call.rest);
      if (!args.has("help")) return await command.run(args);
    }
    await print(formatHelp(name, command ?? entry, helpWidth()));
    return 0;
  } catch (error) {
    // For main.ts, which ends quietly: there is no reader left to report to.
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    // Loaded for errors only.
    const { pathError } = await import("./path_error.ts");
    return await fail(pathError(error, argv), command);
  }
}

/** Returns true if a call asks for JSON, even one with invalid arguments. */
export function hasJsonOption(argv: string[]): boolean {
  const end = argv.indexOf("--");
  return (end < 0 ? argv : argv.slice(0, end)).includes("--json");
}

/**
 * Creates the error for an unknown command, with the most similar name as its hint.
 *
 * @param hint of a word that is known to mean something else
 */
export async function unknownCommand(
  program: string,
  word: string,
  names: readonly string[],
  hint?: string,
): Promise<SbxError> {
  // Loaded for errors only.
  const { didYouMean } = await import("../text/mod.ts");
  return new SbxError("usage.invalid", `unknown command "${word}"`, {
    hint: hint ?? didYouMean(word, names, (name) => `${program} ${name}`) ??
      `${program} --help lists the commands`,
  });
}
