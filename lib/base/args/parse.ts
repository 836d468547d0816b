import { parseArgs } from "@std/cli";
import { SbxError } from "../error/mod.ts";
import { Arguments } from "./arguments.ts";
import { type Command, type CommandGroup, flagsOf, HELP_OPTION, lastWordOf, type Option } from "./command.ts";

/** A program and its command, as named by errors. */
export interface Invocation {
  /** such as `sbx` */
  program: string;
  command: Command;
}

/**
 * Parses the arguments of a command: `--name value`, `--name=value`, `-n value`, switches, words, and a program after
 * `--`.
 *
 * @param argv without the command's own words
 * @throws {SbxError} `usage.invalid`: arguments that do not fit the command
 */
export async function parseArguments(invocation: Invocation, argv: string[]): Promise<Arguments> {
  const { command } = invocation;
  const options = [...command.options, HELP_OPTION];
  const end = argv.indexOf("--");
  const flags = end < 0 ? argv : argv.slice(0, end);
  const rest = end < 0 ? undefined : argv.slice(end + 1);
  let unknown: string | undefined;
  const parsed: Record<string, unknown> & { _: unknown[] } = parseArgs(
    assignSwitches(flags, options, invocation),
    {
      string: ["_", ...options.filter(({ value }) => value !== undefined).map(({ name }) => name)],
      // Every option is collected, to detect duplicates.
      collect: options.map(({ name }) => name),
      alias: Object.fromEntries(
        options.filter(({ short }) => short).map(({ name, short }) => [name, short!]),
      ),
      unknown: (flag: string, key?: string) => {
        if (key !== undefined) unknown ??= flag;
      },
    },
  );
  if (unknown !== undefined) throw await unknownOption(invocation, unknown.split("=", 1)[0]);
  const values = new Map<string, string[]>();
  for (const option of options) {
    const list = (parsed[option.name] ?? []) as string[];
    if (list.length === 0) continue;
    checkValues(invocation, option, list);
    values.set(option.name, option.value === undefined ? [] : list);
  }
  const words = parsed._ as string[];
  const args = command.program
    ? new Arguments(words, values, rest)
    : new Arguments([...words, ...rest ?? []], values);
  if (!args.has("help")) checkWords(invocation, args, rest !== undefined);
  return args;
}

/**
 * Writes every switch with a value: `--json` becomes `--json=true`. Otherwise `parseArgs` would take a following
 * word `true` or `false` as the switch's value.
 */
function assignSwitches(argv: string[], options: Option[], invocation: Invocation): string[] {
  const switches = new Map(
    options.filter(({ value }) => value === undefined).flatMap((option) =>
      flagsOf(option).map((flag) => [flag, `--${option.name}=true`])
    ),
  );
  return argv.map((word) => {
    const [flag, ...value] = word.split("=");
    if (value.length > 0 && switches.has(flag)) throw usageError(invocation, `${flag} takes no value`);
    return switches.get(word) ?? word;
  });
}

function checkValues(invocation: Invocation, { name, value, many }: Option, list: string[]): void {
  if (value === undefined) return;
  if (list.length > 1 && !many) throw usageError(invocation, `--${name} may be given only once`);
  if (list.includes("")) throw usageError(invocation, `--${name} needs a value: --${name} ${value}`);
}

/** @param isEnded the call has a `--` */
function checkWords(invocation: Invocation, { words, program: guest }: Arguments, isEnded: boolean): void {
  const { program, command } = invocation;
  const { min, max } = command.words ?? { min: 0, max: 0 };
  const name = `${program} ${command.name}`;
  if (words.length < min) throw usageError(invocation, `missing argument: ${name} ${command.usage}`);
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
 * Finds the subcommand of a call; options may precede it.
 *
 * @returns the subcommand, and the arguments without its name; no subcommand if the call asks for the group's help
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
  for (let at = 0; at < argv.length && argv[at] !== "--"; at++) {
    const word = argv[at];
    if (word.startsWith("-") && word !== "-") {
      if (valued.includes(word)) at++;
      continue;
    }
    const command = group.subcommands[names.indexOf(word)];
    if (command) return { command, rest: argv.toSpliced(at, 1) };
    // Loaded for errors only.
    const { nearest } = await import("../text/mod.ts");
    const near = nearest(word, names);
    throw new SbxError("usage.invalid", `unknown subcommand "${word}"; one of ${names.join(", ")}`, {
      hint: near ? `did you mean ${program} ${group.name} ${near}?` : `see ${program} ${group.name} --help`,
    });
  }
  if (flagsOf(HELP_OPTION).some((flag) => argv.includes(flag))) return { rest: argv };
  throw new SbxError("usage.invalid", `${program} ${group.name} needs a subcommand: ${names.join(", ")}`, {
    hint: `see ${program} ${group.name} --help`,
  });
}

/** Creates the error of an invalid call, which ends with exit code 2. */
export function usageError({ program, command }: Invocation, message: string, hint?: string): SbxError {
  return new SbxError("usage.invalid", message, { hint: hint ?? `see ${program} ${command.name} --help` });
}

async function unknownOption(invocation: Invocation, flag: string): Promise<SbxError> {
  const { program, command } = invocation;
  // Loaded for errors only.
  const { nearest } = await import("../text/mod.ts");
  const near = nearest(flag, [...command.options, HELP_OPTION].map(({ name }) => `--${name}`));
  return usageError(
    invocation,
    `unknown option ${flag} of ${program} ${command.name}`,
    near && `did you mean ${near}?`,
  );
}
