/** Manual pages in roff (groff_man(7)), generated from the commands for packages. */
import { allGroups } from "../cmd/admin/main.ts";
import { allCommands, TOPICS } from "../cmd/sbx/commands.ts";
import { type Command, type CommandGroup, formatFlags, HELP_OPTION, isGroup } from "../lib/base/args/mod.ts";

interface Page {
  name: string;
  summary: string;
  version: string;
  /** Unix `s` */
  date: number;
  description: string[];
  sections: { title: string; commands: Command[] }[];
}

/** sbx(1). @param date Unix `s` */
export async function sbxPage(version: string, date: number): Promise<string> {
  const all = await allCommands();
  return page({
    name: "sbx",
    summary: "virtual machines for AI agents, governed",
    version,
    date,
    description: [
      "sbx runs isolated virtual machines for AI agents, decides on the actions of their programs by rules, and records them.",
      "Exit codes: 0 for success, 1 for a failure or a negative report, 2 for an invalid call. Commands that run a program exit with " +
      "its code; with 124 after its timeout, 126 if it cannot run or policy blocked it, 125 if sbx itself failed.",
    ],
    sections: TOPICS.map(({ title, commands }) => ({
      title,
      commands: flatten(all.filter(({ name }) => commands.includes(name))),
    })),
  });
}

/** sbx-admin(1). @param date Unix `s` */
export async function adminPage(version: string, date: number): Promise<string> {
  const commands = flatten(await allGroups());
  return page({
    name: "sbx-admin",
    summary: "build images of sbx, and make and check the parts of releases",
    version,
    date,
    description: ["Also sbx admin. Exit code 130 after an interrupt."],
    sections: [{ title: "Commands", commands }],
  });
}

function flatten(commands: (Command | CommandGroup)[]): Command[] {
  return commands.flatMap((command) => isGroup(command) ? command.subcommands : [command]);
}

function page({ name, summary, version, date, description, sections }: Page): string {
  const day = new Date(date * 1000).toISOString().slice(0, 10);
  return [
    `.TH ${name.toUpperCase()} 1 ${day} "${name} ${version}"`,
    ".SH NAME",
    `${text(name)} \\- ${text(summary)}`,
    ".SH SYNOPSIS",
    `.B ${text(name)}`,
    ".I COMMAND",
    "[OPTIONS]",
    ".SH DESCRIPTION",
    ...description.flatMap((each) => [".PP", text(each)]),
    ...sections.flatMap(({ title, commands }) => [
      `.SH ${text(title.toUpperCase())}`,
      ...commands.flatMap((command) => commandLines(name, command)),
    ]),
    "",
  ].join("\n");
}

function commandLines(
  program: string,
  { name, usage, summary, notes = [], options, examples }: Command,
): string[] {
  return [
    `.SS ${text(`${program} ${name} ${usage}`.trimEnd())}`,
    text(`${summary[0].toUpperCase()}${summary.slice(1)}.`),
    ...notes.flatMap((note) => [".PP", text(note)]),
    ...[...options, HELP_OPTION].flatMap((
      option,
    ) => [".TP", `.B ${text(formatFlags(option))}`, text(option.about)]),
    ".PP",
    ".EX",
    ...examples.map(text),
    ".EE",
  ];
}

/** Text of a line in ASCII: a hyphen is a minus, as people copy it, and no line begins with a request. */
function text(line: string): string {
  const escaped = line.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll("\n", " ")
    .replace(
      /[^ -~]/gu,
      (sign) => `\\[u${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}]`,
    );
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped;
}
