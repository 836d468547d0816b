/** Every subcommand by name; each is in the file of that name, which is loaded only when it is used. */
import type { Command } from "../command.ts";

/** In the order in which help lists them. */
export const COMMANDS: readonly string[] = [
  "start",
  "stop",
  "status",
  "run",
  "create",
  "exec",
  "shell",
  "pause",
  "resume",
  "list",
  "info",
  "logs",
  "events",
  "timeline",
  "net",
  "why",
  "asks",
  "allow",
  "deny",
  "sessions",
  "verify",
  "cp",
  "delete",
  "purge",
  "settings",
  "profile",
  "policy",
  "mcp",
  "findings",
  "detection",
  "lab",
  "corp",
  "credentials",
  "update",
  "version",
  "completions",
  "help",
];

/**
 * Loads a command that {@linkcode COMMANDS} names. The specifier is computed on purpose: Deno reads every module that
 * a written one names before it runs anything, which doubles the time of `sbx version`. all.ts names them for
 * `deno compile --include` and for whoever checks imports.
 */
export async function loadCommand(name: string): Promise<Command> {
  const file = `./${name}.ts`;
  return (await import(file)).command;
}

/** Loads all of them, for help and completions. */
export async function allCommands(): Promise<Command[]> {
  return await Promise.all(COMMANDS.map(loadCommand));
}
