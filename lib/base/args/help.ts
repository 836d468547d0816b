/** Help texts, from the declarations of commands. */
import { type Command, type CommandGroup, flagsOf, HELP_OPTION, isGroup, type Option } from "./command.ts";

/** Columns of a help that no terminal shows, such as one in a pipe. */
const DEFAULT_WIDTH = 80;
/** Fewest columns that a help is laid out for; a narrower terminal breaks its lines itself. */
const MIN_WIDTH = 40;
/** Largest share of the width for the first column; a longer entry has its text on the line below. */
const LEFT_SHARE = 0.4;

/** Returns the columns of the terminal that stdout is, or 80. */
export function helpWidth(): number {
  // A terminal without a size, such as a serial line, has 0 columns.
  const columns = Deno.stdout.isTerminal() ? Deno.consoleSize().columns : 0;
  return columns > 0 ? Math.max(columns, MIN_WIDTH) : DEFAULT_WIDTH;
}

/**
 * Formats the help of a command or of a group. Examples keep their lines: they are for copying.
 *
 * @param width columns of the terminal
 */
export function formatHelp(program: string, command: Command | CommandGroup, width: number): string {
  const { name, summary, notes = [] } = command;
  const paragraphs = [summary, ...notes].flatMap((text) => wrap(text, width, "  "));
  if (isGroup(command)) {
    return [
      `${program} ${name} SUBCOMMAND`,
      ...paragraphs,
      "",
      "Subcommands:",
      ...columns(
        command.subcommands.map((each) => [`${program} ${each.name} ${each.usage}`.trimEnd(), each.summary]),
        width,
      ),
      "",
      ...wrap(`${program} ${name} SUBCOMMAND --help shows its options.`, width, ""),
    ].join("\n");
  }
  const { usage, options, examples } = command;
  return [
    ...wrap(`${program} ${name} ${usage}`.trimEnd(), width, "", "    "),
    ...paragraphs,
    "",
    "Options:",
    ...columns([...options, HELP_OPTION].map((option) => [formatFlags(option), option.about]), width),
    ...(examples.length ? ["", "Examples:", ...examples.map((line) => `  ${line}`)] : []),
  ].join("\n");
}

/** Commands below one title of an overview. */
interface OverviewTopic {
  title: string;
  commands: Pick<Command, "name" | "summary">[];
}

/**
 * Formats the commands of a program by topic.
 *
 * @param end lines below them
 * @param width columns of the terminal
 */
export function formatOverview(title: string, topics: OverviewTopic[], end: string, width: number): string {
  const left = Math.max(...topics.flatMap(({ commands }) => commands.map(({ name }) => name.length)));
  const blocks = topics.map(({ title, commands }) => [
    `${title}:`,
    ...columns(commands.map(({ name, summary }) => [name, summary]), width, left),
    "",
  ]);
  const ends = end.split("\n").flatMap((line) => wrap(line, width, ""));
  return [...wrap(title, width, ""), "", ...blocks.flat(), ...ends].join("\n");
}

/** `-t, --timeout SECONDS`. */
export function formatFlags(option: Option): string {
  return flagsOf(option).reverse().join(", ") + (option.value ? ` ${option.value}` : "");
}

/** Indented rows of two columns. */
function columns(
  rows: [string, string][],
  width: number,
  left = Math.max(...rows.map(([entry]) => entry.length).filter((length) => length <= LEFT_SHARE * width), 0),
): string[] {
  const indent = " ".repeat(left + 4);
  return rows.flatMap(([entry, text]) =>
    entry.length <= left
      ? wrap(text, width, `  ${entry.padEnd(left)}  `, indent)
      : [...wrap(entry, width, "  ", "    "), ...wrap(text, width, indent)]
  );
}

/** Breaks a text at its spaces. A word wider than the line keeps its own. */
function wrap(text: string, width: number, first: string, next = first): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(" ")) {
    if (!isEmpty && line.length + 1 + word.length > width) {
      lines.push(line);
      line = next;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}
