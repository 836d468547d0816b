import { SbxError } from "../error/mod.ts";
import {
  Arguments,
  type Command,
  type CommandGroup,
  flagsOf,
  HELP_OPTION,
  type Invocation,
  lastWordOf,
  usageError,
} from "./command.ts";
import type { ParsedOptions } from "./options/mod.ts";

/**
 * Parses the arguments of a command: `--name value`, `--name=value`, `-n value`, switches,
 * words, and a program after `--`.
 *
 * @param argv without the command's own words
 * @throws {SbxError} `usage.invalid`: arguments that do not fit the command
 */
export async function parseArguments(invocation: Invocation, argv: string[]): Promise<Arguments> {
  const { command } = invocation;
  const end = argv.indexOf("--");
  const before = end < 0 ? argv : argv.slice(0, end);
  const rest = end < 0 ? undefined : argv.slice(end + 1);
  const { words, values } = before.some((word) => word.startsWith("-") && word !== "-")
    ? await parseOptions(invocation, before)
    : { words: before, values: new Map<string, string[]>() };
  const args = command.program
    ? new Arguments(words, values, rest)
    : new Arguments([...words, ...rest ?? []], values);
  if (!args.has("help")) checkWords(invocation, args, rest !== undefined);
  return args;
}

/**
 * Parses options and words. The library is loaded by a computed specifier, for calls with options only: it
 * would delay the start of `sbx exec` by 4 ms. cmd/all.ts names the file.
 */
async function parseOptions(invocation: Invocation, argv: string[]): Promise<ParsedOptions> {
  const file = "./options/mod.ts";
  const { readOptions } = await import(file) as typeof import("./options/mod.ts");
  return readOptions(invocation, argv);
}

/** @param isEnded the call has a `--` */
function checkWords(invocation: Invocation, { words, program: guest }: Arguments, isEnded: boolean): void {
  const { program, command } = invocation;
  const { min, max } = command.words ?? { min: 0, max: 0 };
  const name = `${program} ${command.name}`;
  if (words.length < min) throw usageError(invocation, `missing argument: ${name} ${command.usage}`);
  const empty = command.emptyWords ? -1 : words.indexOf("");
  if (empty >= 0) throw usageError(invocation, `argument ${empty + 1} is empty: ${name} ${command.usage}`);
  if (words.length <= max) return;
  const message = `unexpected argument "${words[max]}"`;
  if (command.program && guest === undefined) {
    const before = words.slice(0, max).map((word) => `${word} `).join("");
    throw usageError(
      invocation,
      message,
      `put -- before the program: ${name} ${before}-- ${words.slice(max).join(" ")}`,
    );
  }
  throw usageError(invocation, isEnded ? `${message}: ${name} does not run a program` : message);
}

/**
 * Finds the subcommand of a call, or that of a group for calls without; options may precede it.
 *
 * @returns the subcommand, and the arguments without its name; no subcommand if the
 * call asks for the group's help
 * @throws {SbxError} `usage.invalid`: missing or unknown subcommand
 */
export async function findSubcommand(
  program: string,
  group: CommandGroup,
  argv: string[],
): Promise<{ command?: Command; rest: string[] }> {
  const valued = group.subcommands.flatMap(({ options }) => options)
    .filter(({ value }) => value !== undefined)
    .flatMap(flagsOf);
  const names = group.subcommands.map(lastWordOf);
  const fallback = group.subcommands.find((command) => lastWordOf(command) === group.fallback);
  for (let at = 0; at < argv.length && argv[at] !== "--"; at++) {
    const word = argv[at];
    if (word.startsWith("-") && word !== "-") {
      if (valued.includes(word)) at++;
      continue;
    }
    const command = group.subcommands[names.indexOf(word)];
    if (command) return { command, rest: argv.toSpliced(at, 1) };
    if (fallback) return { command: fallback, rest: argv };
    // Loaded for errors only.
    const { didYouMean } = await import("../text/mod.ts");
    const near = didYouMean(word, names, (name) => `${program} ${group.name} ${name}`);
    throw new SbxError("usage.invalid", `unknown subcommand "${word}"; one of ${names.join(", ")}`, {
      hint: near ?? `see ${program} ${group.name} --help`,
    });
  }
  if (flagsOf(HELP_OPTION).some((flag) => argv.includes(flag))) return { rest: argv };
  if (fallback) return { command: fallback, rest: argv };
  throw new SbxError("usage.invalid", `${program} ${group.name} needs a subcommand: ${names.join(", ")}`, {
    hint: `see ${program} ${group.name} --help`,
  });
}
