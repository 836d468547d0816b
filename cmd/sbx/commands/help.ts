import { names, usage } from "../arguments.ts";
import { type Command, HELP_OPTION, type Option } from "../command.ts";
import { allCommands, COMMANDS, loadCommand } from "./mod.ts";
import { print } from "../output.ts";

export const command: Command = {
  name: "help",
  usage: "[COMMAND]",
  summary: "this list, or the help of one command",
  options: [],
  words: { min: 0, max: 1 },
  examples: ["sbx help", "sbx help run"],
  async run({ words: [name] }) {
    if (name === undefined) return await print(overview(await allCommands())), 0;
    if (!COMMANDS.includes(name)) {
      throw usage(command, `there is no command "${name}"`, "sbx help lists the commands");
    }
    await print(helpOf(await loadCommand(name)));
    return 0;
  },
};

/** The help of one command. */
export function helpOf({ name, usage, summary, notes = [], options, examples }: Command): string {
  return [
    `sbx ${name} ${usage}`.trimEnd(),
    `  ${summary}`,
    ...notes.map((note) => `  ${note}`),
    "",
    "Options:",
    ...columns([...options, HELP_OPTION].map((option) => [spelling(option), option.about])),
    "",
    "Examples:",
    ...examples.map((line) => `  ${line}`),
  ].join("\n");
}

function overview(commands: Command[]): string {
  return [
    "sbx COMMAND: virtual machines for agents, and a record of what they do",
    "",
    ...columns(commands.map(({ name, summary }) => [name, summary])),
    "",
    "sbx COMMAND --help shows a command's options. Start with: sbx run -- uname -a",
  ].join("\n");
}

function spelling(option: Option): string {
  return names(option).reverse().join(", ") + (option.value ? ` ${option.value}` : "");
}

function columns(rows: [string, string][]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
