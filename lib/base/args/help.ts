/** Help texts, generated from the declarations of commands. */
import { type Command, type CommandGroup, flagsOf, HELP_OPTION, isGroup, type Option } from "./command.ts";

/** Formats the help of a command or of a group. */
export function formatHelp(program: string, command: Command | CommandGroup): string {
  if (isGroup(command)) {
    const { name, summary, notes = [], subcommands } = command;
    return [
      `${program} ${name} SUBCOMMAND`,
      `  ${summary}`,
      ...notes.map((note) => `  ${note}`),
      "",
      "Subcommands:",
      ...columns(
        subcommands.map((each) => [`${program} ${each.name} ${each.usage}`.trimEnd(), each.summary]),
      ),
      "",
      `${program} ${name} SUBCOMMAND --help shows its options.`,
    ].join("\n");
  }
  const { name, usage, summary, notes = [], options, examples } = command;
  return [
    `${program} ${name} ${usage}`.trimEnd(),
    `  ${summary}`,
    ...notes.map((note) => `  ${note}`),
    "",
    "Options:",
    ...columns([...options, HELP_OPTION].map((option) => [formatFlags(option), option.about])),
    ...(examples.length ? ["", "Examples:", ...examples.map((line) => `  ${line}`)] : []),
  ].join("\n");
}

/** Commands below one title of an overview. */
export interface OverviewTopic {
  title: string;
  commands: (Command | CommandGroup)[];
}

/** Formats the commands of a program by topic, one line each. */
export function formatOverview(title: string, topics: OverviewTopic[], end: string): string {
  const names = topics.flatMap(({ commands }) => commands.map(({ name }) => name.length));
  const width = Math.max(...names);
  const blocks = topics.map(({ title, commands }) => [
    `${title}:`,
    ...columns(commands.map(({ name, summary }) => [name, summary]), width),
    "",
  ]);
  return [title, "", ...blocks.flat(), end].join("\n");
}

/** `-t, --timeout SECONDS`. */
export function formatFlags(option: Option): string {
  return flagsOf(option).reverse().join(", ") + (option.value ? ` ${option.value}` : "");
}

/** Indented rows of two columns. */
function columns(
  rows: [string, string][],
  width = Math.max(...rows.map(([left]) => left.length)),
): string[] {
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
