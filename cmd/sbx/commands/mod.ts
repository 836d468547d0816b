/** Names of the commands; each command is in the file of that name, loaded on use. */
import type { Command, CommandGroup } from "../../../lib/base/args/mod.ts";

/** Command names, in the order of help. */
export const COMMANDS: readonly string[] = [
  "start",
  "stop",
  "status",
  "desktop",
  "doctor",
  "debug",
  "support-bundle",
  "bench",
  "agent",
  "run",
  "create",
  "exec",
  "jobs",
  "shell",
  "port",
  "open",
  "ssh-config",
  "pause",
  "resume",
  "suspend",
  "fork",
  "save",
  "list",
  "info",
  "logs",
  "events",
  "timeline",
  "tree",
  "net",
  "why",
  "asks",
  "allow",
  "deny",
  "costs",
  "sessions",
  "sql",
  "verify",
  "certify",
  "push",
  "diff",
  "review",
  "pull",
  "cp",
  "snapshots",
  "undo",
  "delete",
  "restore",
  "purge",
  "settings",
  "profile",
  "policy",
  "mcp",
  "findings",
  "detection",
  "hunt",
  "lab",
  "learn",
  "corp",
  "fleet",
  "credentials",
  "template",
  "image",
  "update",
  "version",
  "completions",
  "help",
];

/**
 * Loads a command of {@linkcode COMMANDS}. The specifier is computed, since Deno reads every module of a literal one
 * before it runs anything, which doubles the time of `sbx version`. all.ts names the modules for
 * `deno compile --include` and for import checks.
 */
export async function loadCommand(name: string): Promise<Command | CommandGroup> {
  const file = `./${name}.ts`;
  return (await import(file)).command;
}

/** Loads all commands, for help and completions. */
export async function allCommands(): Promise<(Command | CommandGroup)[]> {
  return await Promise.all(COMMANDS.map(loadCommand));
}
