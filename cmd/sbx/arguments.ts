import { SbxError } from "../../lib/base/error/mod.ts";
import { type Command, Given, HELP_OPTION, type Option } from "./command.ts";

/**
 * Reads a command's arguments: `--name value`, `--name=value`, `-n value`, switches, words, and a program after `--`.
 *
 * @throws SbxError `usage.invalid`, with what was probably meant
 */
export async function parseArguments(command: Command, args: string[]): Promise<Given> {
  const given = new Given();
  const rest = [...args];
  while (rest.length > 0) {
    const word = rest.shift()!;
    if (word === "--") {
      if (!command.program) {
        throw usage(command, `sbx ${command.name} runs no program, so nothing may follow --`);
      }
      given.program = rest.splice(0);
    } else if (word.startsWith("-") && word !== "-") {
      await takeOption(command, word, rest, given);
    } else {
      given.words.push(word);
    }
  }
  if (!given.on("help")) checkWords(command, given);
  return given;
}

async function takeOption(command: Command, word: string, rest: string[], given: Given): Promise<void> {
  const equals = word.startsWith("--") ? word.indexOf("=") : -1;
  const flag = equals < 0 ? word : word.slice(0, equals);
  const option = [...command.options, HELP_OPTION].find((known) => names(known).includes(flag));
  if (option === undefined) throw await unknownOption(command, flag);
  if (given.on(option.name) && !option.many && option.value) throw usage(command, `${flag} is given twice`);
  if (option.value === undefined) {
    if (equals >= 0) throw usage(command, `${flag} takes no value`);
    return given.add(option.name);
  }
  const value = equals < 0 ? rest.shift() : word.slice(equals + 1);
  if (value === undefined || (equals < 0 && value === "--")) {
    throw usage(command, `${flag} needs a value: ${flag} ${option.value}`);
  }
  given.add(option.name, value);
}

function checkWords(command: Command, { words, program }: Given): void {
  const { min, max } = command.words ?? { min: 0, max: 0 };
  if (words.length < min) throw usage(command, `sbx ${command.name} needs ${command.usage}`);
  if (words.length <= max) return;
  if (command.program && program === undefined) {
    const before = words.slice(0, max).map((word) => `${word} `).join("");
    throw new SbxError("usage.invalid", `"${words[max]}" is one word too many before --`, {
      hint: `put -- before the program: sbx ${command.name} ${before}-- ${words.slice(max).join(" ")}`,
    });
  }
  throw usage(command, `"${words[max]}" is one word too many`);
}

/** `--timeout` and `-t`. */
export function names({ name, short }: Option): string[] {
  return short ? [`--${name}`, `-${short}`] : [`--${name}`];
}

async function unknownOption(command: Command, flag: string): Promise<SbxError> {
  // Only a mistake pays for loading this.
  const { nearest } = await import("../../lib/event/catalogue.ts");
  const known = [...command.options, HELP_OPTION].map(({ name }) => `--${name}`);
  const near = nearest(flag, known);
  return usage(command, `sbx ${command.name} has no option ${flag}`, near && `did you mean ${near}?`);
}

/** A call that cannot be meant: exit code 2. */
export function usage(command: { name: string }, what: string, hint?: string): SbxError {
  return new SbxError("usage.invalid", what, { hint: hint ?? `sbx ${command.name} --help shows how` });
}

/**
 * A number that an option gives.
 *
 * @throws SbxError `usage.invalid` when it is none, or not between `min` and `max`
 */
export function numberOf(
  given: Given,
  name: string,
  { min, max, whole = true }: { min: number; max: number; whole?: boolean },
): number | undefined {
  const text = given.text(name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== "" && value >= min && value <= max && (!whole || Number.isInteger(value))) return value;
  throw new SbxError("usage.invalid", `--${name} is "${text}"`, {
    hint: `give a ${whole ? "whole " : ""}number from ${min} to ${max}`,
  });
}
