/** Declarations of commands, and the arguments of their calls. */
import { SbxError } from "../error/mod.ts";

/** Words that are looked up for completion, where they are: in the service, or in files of the home. */
export type Lookup =
  | "vms"
  | "vm paths"
  | "vm folders"
  | "deleted vms"
  | "jobs"
  | "running jobs"
  | "profiles"
  | "settings"
  | "snapshots"
  | "points"
  | "templates"
  | "services"
  | "credentials"
  | "providers"
  | "sessions"
  | "events"
  | "agents"
  | "asks"
  | "images"
  | "labels"
  | "setting values"
  | "mcp servers"
  | "mcp tools"
  | "packs"
  | "rule changes"
  | "questions";
/** Paths of this machine, which the shell completes itself. */
export type Paths = "files" | "folders";
/** Words that the shell offers: a list, a lookup, paths, or more than one of them. */
export type Completion = Lookup | Paths | readonly string[] | { either: readonly (Lookup | Paths)[] };

/** An option of a command. */
export interface Option {
  /** long name without its dashes, such as `timeout` */
  name: string;
  /** one letter */
  short?: string;
  /** placeholder of its value, such as `SECONDS`; absent for a switch */
  value?: string;
  /** repeatable */
  many?: boolean;
  about: string;
  /** the only values; others are refused, and the shell offers these */
  choices?: readonly string[];
  /** values that the shell offers; absent: by the placeholder, such as `FILE` */
  completes?: Completion;
}

/** A command: its declaration, and its action. */
export interface Command {
  /** the words after the program's name, such as `list` or `settings set` */
  name: string;
  /** the rest of the call, such as `NAME -- CMD…` */
  usage: string;
  summary: string;
  /** sentences of the command's help, below its summary */
  notes?: string[];
  options: Option[];
  /** number of positional words; default none */
  words?: { min: number; max: number };
  /**
   * accepts empty words; elsewhere one comes from an unset variable of a script, and
   * would mean the folder of the call
   */
  emptyWords?: boolean;
  /** accepts `-- CMD…`; in other commands `--` ends the options */
  program?: boolean;
  /** complete command lines, for help */
  examples: string[];
  /** words that the shell offers, by place; the last also for the places after it */
  completes?: readonly Completion[];
  /**
   * exit code of its own failure, default 1; a command that runs a guest's program needs
   * another, since 1 may be the guest's
   */
  failure?: number;
  /** Runs the command. @returns the exit code */
  run(args: Arguments): Promise<number>;
}

/** Commands that share their first word, such as `settings get` and `settings set`. */
export interface CommandGroup {
  /** the shared word */
  name: string;
  summary: string;
  notes?: string[];
  subcommands: Command[];
  /** last word of the subcommand of a call that names none */
  fallback?: string;
}

export const JSON_OPTION: Option = { name: "json", about: "print JSON" };
export const HELP_OPTION: Option = { name: "help", short: "h", about: "show this help" };

export function isGroup(command: Command | CommandGroup): command is CommandGroup {
  return "subcommands" in command;
}

/** `--timeout` and `-t`. */
export function flagsOf({ name, short }: Option): string[] {
  return short ? [`--${name}`, `-${short}`] : [`--${name}`];
}

/** `set` of `settings set`. */
export function lastWordOf({ name }: Command): string {
  return name.slice(name.lastIndexOf(" ") + 1);
}

/** The options and words of one call, checked against the command's declaration. */
export class Arguments {
  /** positional words, without the command's name */
  readonly words: string[];
  /** the words after `--`, for commands that run a program */
  readonly program?: string[];
  readonly #options: ReadonlyMap<string, string[]>;

  /** @param options values by long name; a switch has an empty list */
  constructor(words: string[], options: ReadonlyMap<string, string[]>, program?: string[]) {
    this.words = words;
    this.#options = options;
    this.program = program;
  }

  /** Returns true if the option is present. */
  has(name: string): boolean {
    return this.#options.has(name);
  }

  /** Returns the value of an option. */
  text(name: string): string | undefined {
    return this.#options.get(name)?.[0];
  }

  /** Returns the values of a repeatable option. */
  list(name: string): string[] {
    return this.#options.get(name) ?? [];
  }

  /**
   * Returns the value of a numeric option.
   * @throws {SbxError} `usage.invalid`: not a number from `min` to `max`
   */
  number(
    name: string,
    { min, max, whole = true }: { min: number; max: number; whole?: boolean },
  ): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (text.trim() !== "" && value >= min && value <= max && (!whole || Number.isInteger(value))) {
      return value;
    }
    throw new SbxError("usage.invalid", `invalid value "${text}" of --${name}`, {
      hint: `give a ${whole ? "whole " : ""}number from ${min} to ${max}`,
    });
  }
}

/** A program and its command, as named by errors. */
export interface Invocation {
  /** such as `sbx` */
  program: string;
  command: Command;
}

/** Creates the error of an invalid call, which ends with exit code 2. */
export function usageError({ program, command }: Invocation, message: string, hint?: string): SbxError {
  return new SbxError("usage.invalid", message, { hint: hint ?? `see ${program} ${command.name} --help` });
}

const DAY_MS = 86_400_000;
/** Longest look back, in days: a century. */
const DAYS_MAX = 36_500;

/** The option `--days`. @param fallback days without it; absent: all */
export function daysOption(fallback?: number): Option {
  return { name: "days", value: "N", about: `look back this long; default ${fallback ?? "all"}` };
}

/**
 * Reads `--days`.
 *
 * @returns Unix `ms` of the time that many days ago; `undefined`: neither option nor fallback
 * @throws {SbxError} `usage.invalid`
 */
export function sinceOf(args: Arguments, fallback: number): number;
export function sinceOf(args: Arguments, fallback?: number): number | undefined;
export function sinceOf(args: Arguments, fallback?: number): number | undefined {
  const days = args.number("days", { min: 1, max: DAYS_MAX }) ?? fallback;
  return days === undefined ? undefined : Date.now() - days * DAY_MS;
}
