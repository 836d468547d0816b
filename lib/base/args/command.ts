import type { Arguments } from "./arguments.ts";

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
  /** accepts empty words; elsewhere one comes from an unset variable of a script, and would mean the folder of the call */
  emptyWords?: boolean;
  /** accepts `-- CMD…`; in other commands `--` ends the options */
  program?: boolean;
  /** complete command lines, for help */
  examples: string[];
  /** its words complete as names of VMs */
  completesNames?: boolean;
  /** its words complete as ids of jobs: of all, or of the running ones */
  completesJobs?: "all" | "running";
  /** exit code of its own failure, default 1; a command that runs a guest's program needs another, since 1 may be the guest's */
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
