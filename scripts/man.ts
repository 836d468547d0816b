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
  /** sections of words and their meanings */
  facts?: { title: string; rows: [string, string][] }[];
  examples?: string[];
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
      "Each command has its own help: sbx COMMAND --help. With --host ssh://NAME in front of it, a command is for the sbx of " +
      "another machine.",
    ],
    sections: TOPICS.map(({ title, commands }) => ({
      title,
      commands: flatten(all.filter(({ name }) => commands.includes(name))),
    })),
    facts: [
      {
        title: "Exit status",
        rows: [
          ["0", "success"],
          ["1", "a failure, or a negative report"],
          ["2", "an invalid call"],
          ["124", "a program ran into its timeout"],
          ["125", "sbx itself failed, in a command that runs a program"],
          ["126", "a program cannot run, or policy blocked it; other codes are the program's own"],
        ],
      },
      {
        title: "Environment",
        rows: [
          ["SBX_HOME", "folder of all that sbx keeps; default ~/.sbx"],
          ["SBX_RUN_DIR", "folder of its sockets; default run of SBX_HOME"],
          ["SBX_ASSETS_DIR", "folder of the images that VMs boot; default assets of SBX_HOME"],
          ["SBX_GATEWAY_PORT", "TCP port of the gateway on 127.0.0.1; default 19222 where it is free"],
          ["SBX_HOST", "machine whose sbx the commands are for, as with --host"],
        ],
      },
      {
        title: "Files",
        rows: [
          ["~/.sbx/profiles", "profiles of this user, each profile.toml in a folder of its id"],
          ["~/.sbx/rules", "rules that answers to asks have added, by profile"],
          ["/etc/sbx/corp.toml", "settings, rules and locks of the company"],
        ],
      },
    ],
    examples: [
      "sbx run -- uname -a",
      "sbx agent claude .",
      "sbx create demo --from-dir . --ram 4G --disk 40G",
      "sbx exec demo -- make test",
      "sbx pull demo",
      'eval "$(sbx completions bash)"',
    ],
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

function page(
  { name, summary, version, date, description, sections, facts = [], examples = [] }: Page,
): string {
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
    ...description.flatMap((each, at) => at === 0 ? [text(each)] : [".PP", text(each)]),
    ...sections.flatMap(({ title, commands }) => [
      `.SH ${text(title.toUpperCase())}`,
      ...commands.flatMap((command) => commandLines(name, command)),
    ]),
    ...facts.flatMap(({ title, rows }) => [
      `.SH ${text(title.toUpperCase())}`,
      ...rows.flatMap(([word, meaning]) => [".TP", `.B ${text(word)}`, text(meaning)]),
    ]),
    ...examples.length > 0 ? [".SH EXAMPLES", ".EX", ...examples.map(text), ".EE"] : [],
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
