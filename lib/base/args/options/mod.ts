/** Options of a call, read by `@std/cli`. Loaded only for calls that have some. */
import { parseArgs } from "@std/cli";
import { didYouMean } from "../../text/mod.ts";
import { flagsOf, HELP_OPTION, type Invocation, type Option, usageError } from "../command.ts";

/** Words and options of a call. */
export interface ParsedOptions {
  words: string[];
  /** values by long name; none for a switch */
  values: Map<string, string[]>;
}

/** @throws {SbxError} `usage.invalid`: unknown option, missing or unexpected value, an option given twice */
export function readOptions(invocation: Invocation, argv: readonly string[]): ParsedOptions {
  const options = [...invocation.command.options, HELP_OPTION];
  const parsed: Record<string, unknown> & { _: string[] } = parseArgs(
    assignValues(invocation, options, argv),
    {
      string: ["_", ...options.map(keyOf)],
      // Every option is collected, so that duplicates are seen.
      collect: options.map(keyOf),
    },
  );
  const values = new Map<string, string[]>();
  for (const option of options) {
    const { name, value, many } = option;
    const list = parsed[keyOf(option)] as string[];
    if (list.length === 0) continue;
    if (list.length > 1 && value !== undefined && !many) {
      throw usageError(invocation, `--${name} may be given only once`);
    }
    requireChoices(invocation, option, list);
    values.set(name, value === undefined ? [] : list);
  }
  return { words: parsed._, values };
}

/**
 * Writes every option as `--name=value`, the one form that `parseArgs` reads without guessing: it would take
 * a word `true` behind a switch as its value, read `-eNAME=VALUE` as `-e VALUE`, `-abc` as three options,
 * and `--no-json=x` as `--json`.
 */
function assignValues(invocation: Invocation, options: readonly Option[], argv: readonly string[]): string[] {
  const byFlag = new Map(options.flatMap((option) => flagsOf(option).map((flag) => [flag, option] as const)));
  const assigned: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at];
    if (!word.startsWith("-") || word === "-") {
      assigned.push(word);
      continue;
    }
    const equals = word.startsWith("--") ? word.indexOf("=") : -1;
    const flag = equals < 0 ? word : word.slice(0, equals);
    const option = byFlag.get(flag);
    if (!option) throw unknownOption(invocation, flag, options);
    const isSwitch = option.value === undefined;
    if (isSwitch && equals >= 0) throw usageError(invocation, `${flag} takes no value`);
    const value = isSwitch ? "true" : equals < 0 ? argv[++at] : word.slice(equals + 1);
    if (!value) throw usageError(invocation, `${flag} needs a value: ${flag} ${option.value}`);
    assigned.push(`--${keyOf(option)}=${value}`);
  }
  return assigned;
}

/** Name of an option for the library, which takes `--no-wait` for a negative of `--wait`. */
function keyOf({ name }: Option): string {
  return name.replace(/^no-/, "not-");
}

function unknownOption(invocation: Invocation, flag: string, options: readonly Option[]) {
  const near = didYouMean(flag, options.map(({ name }) => `--${name}`));
  const what = `unknown option ${flag} of ${invocation.program} ${invocation.command.name}`;
  return usageError(invocation, what, near);
}

function requireChoices(invocation: Invocation, { name, choices }: Option, values: readonly string[]): void {
  const unknown = choices && values.find((value) => !choices.includes(value));
  if (choices === undefined || unknown === undefined) return;
  const near = didYouMean(unknown, choices);
  const all = `give one of ${choices.join(", ")}`;
  throw usageError(invocation, `unknown value "${unknown}" of --${name}`, near ? `${near} ${all}` : all);
}
