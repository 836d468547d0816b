/** Commands of sbx by topic; each is in the file of its name, in the folder of its topic, loaded on use. */
import type { Command, CommandGroup } from "../../lib/base/args/mod.ts";

/** Commands of one topic, in the order of help. */
export interface Topic {
  title: string;
  /** beside this file, with the helpers of its commands */
  folder: string;
  commands: readonly string[];
}

/** Topics in the order of help; each command is in one. */
export const TOPICS: readonly Topic[] = [
  {
    title: "Start here",
    folder: "start",
    commands: ["run", "ci", "agent", "send", "compare", "acp", "e2b", "desktop", "status", "doctor", "help"],
  },
  {
    title: "VMs",
    folder: "vm",
    commands: [
      "create",
      "list",
      "info",
      "exec",
      "shell",
      "jobs",
      "services",
      "port",
      "devcontainer",
      "open",
      "ssh-config",
      "start",
      "stop",
      "pause",
      "resume",
      "lift",
      "suspend",
      "fork",
      "save",
      "set",
      "delete",
      "restore",
      "purge",
    ],
  },
  {
    title: "Files and work",
    folder: "files",
    commands: ["push", "diff", "review", "pull", "cp", "snapshots", "undo", "project"],
  },
  {
    title: "Record",
    folder: "record",
    commands: [
      "events",
      "timeline",
      "tree",
      "net",
      "files",
      "models",
      "why",
      "report",
      "costs",
      "findings",
      "logs",
      "sessions",
      "sql",
      "verify",
      "certify",
    ],
  },
  {
    title: "Rules",
    folder: "rules",
    commands: [
      "asks",
      "allow",
      "deny",
      "profile",
      "policy",
      "credentials",
      "login",
      "logout",
      "mcp",
      "detection",
      "hunt",
      "lab",
      "learn",
    ],
  },
  {
    title: "Administration",
    folder: "admin",
    commands: [
      "settings",
      "corp",
      "fleet",
      "template",
      "image",
      "cache",
      "disk",
      "gc",
      "update",
      "debug",
      "support-bundle",
      "bench",
      "version",
      "completions",
    ],
  },
];

/** Command names, in the order of help. */
export const COMMANDS: readonly string[] = TOPICS.flatMap(({ commands }) => commands);

/** Other words for commands: options, and the names that people try first. */
export const ALIASES: ReadonlyMap<string, string> = new Map([
  ["--help", "help"],
  ["-h", "help"],
  ["--version", "version"],
  ["-V", "version"],
  ["ls", "list"],
  ["ps", "list"],
  ["rm", "delete"],
  ["remove", "delete"],
  ["destroy", "delete"],
  ["upgrade", "update"],
  ["log", "logs"],
  ["ssh", "shell"],
  ["finding", "findings"],
  ["alerts", "findings"],
  ["event", "events"],
  ["model", "models"],
  ["file", "files"],
]);

/** Subcommands that are a command of their own, too. */
export const SHORT_FORMS: ReadonlyMap<string, readonly string[]> = new Map([["attach", ["agent", "attach"]]]);

/** Words that people try for something that has no command, with the commands for it. */
export const TRIED: ReadonlyMap<string, { hint: string }> = new Map(Object.entries({
  answer: { hint: "sbx allow ASK lets it pass, and sbx deny ASK refuses it; sbx asks lists them" },
  approve: { hint: "sbx allow ASK lets it pass; sbx asks lists what waits" },
  down: { hint: "sbx stop NAME stops a VM" },
  kill: { hint: "sbx stop NAME stops a VM, and sbx jobs stop ID a program in it" },
  merge: { hint: "sbx pull NAME makes a branch of its work, which git merges" },
  new: { hint: "sbx create NAME makes a VM" },
  race: { hint: "sbx agent run AGENT --race 3 -p TEXT lets three agents work on one task" },
  up: { hint: "sbx create NAME makes a VM, and sbx start NAME starts a stopped one" },
}));

/** All words that name a command, for "did you mean". */
export const COMMAND_WORDS: readonly string[] = [
  ...COMMANDS,
  ...SHORT_FORMS.keys(),
  ...[...ALIASES.keys()].filter((word) => !word.startsWith("-")),
];

/**
 * Loads a command of {@linkcode COMMANDS}. The specifier is computed, since Deno reads every module of a
 * literal one before it runs anything, which doubles the time of `sbx version`. all.ts names the modules for
 * `deno compile --include` and for import checks.
 */
export async function loadCommand(name: string): Promise<Command | CommandGroup> {
  const { folder } = TOPICS.find(({ commands }) => commands.includes(name))!;
  const file = `./${folder}/${name}.ts`;
  return (await import(file)).command;
}

/** Loads all commands, for help and completions. */
export async function allCommands(): Promise<(Command | CommandGroup)[]> {
  return await Promise.all(COMMANDS.map(loadCommand));
}
