import {
  type Command,
  type CommandGroup,
  formatHelp,
  formatOverview,
  helpWidth,
  isGroup,
  lastWordOf,
  unknownCommand,
} from "../../../lib/base/args/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import { PROGRAM, usageError, UTC_NOTE } from "../output.ts";
import { ALIASES, COMMAND_WORDS, COMMANDS, loadCommand, SHORT_FORMS, TOPICS, TRIED } from "../commands.ts";
import { SUMMARIES } from "../summaries.ts";

export const command: Command = {
  name: "help",
  usage: "[COMMAND [SUBCOMMAND]]",
  summary: "list the commands, or show the help of one",
  options: [],
  words: { min: 0, max: 2 },
  completes: [COMMANDS],
  examples: ["sbx help", "sbx help run", "sbx help credentials add"],
  async run({ words: [word, ...rest] }) {
    if (word === undefined) return await print(overview()), 0;
    const [name, subcommand, further] = [...SHORT_FORMS.get(word) ?? [ALIASES.get(word) ?? word], ...rest];
    if (further !== undefined) throw usageError(command, `${word} has no subcommands`, `sbx help ${word}`);
    if (!COMMANDS.includes(name)) {
      throw await unknownCommand(PROGRAM, name, COMMAND_WORDS, TRIED.get(name)?.hint);
    }
    const found = await loadCommand(name);
    const shown = subcommand === undefined ? found : subcommandOf(found, subcommand);
    await print(formatHelp(PROGRAM, shown, helpWidth()));
    return 0;
  },
};

/** @throws {SbxError} `usage.invalid` */
function subcommandOf(group: Command | CommandGroup, word: string): Command {
  const { name } = group;
  if (!isGroup(group)) throw usageError(command, `${name} has no subcommands`, `sbx help ${name}`);
  const words = group.subcommands.map(lastWordOf);
  const found = group.subcommands[words.indexOf(word)];
  if (found) return found;
  throw usageError(
    command,
    `${name} has no subcommand "${word}"`,
    didYouMean(word, words, (near) => `${PROGRAM} help ${name} ${near}`) ?? `sbx help ${name} lists them`,
  );
}

const TITLE = "sbx COMMAND: isolated VMs for AI agents, and a record of their actions";
const END = `sbx COMMAND --help shows the options of a command. ${UTC_NOTE}
Also: sbx ls or ps (list), rm or remove (delete), ssh (shell), log (logs),
attach (agent attach).
sbx --host ssh://NAME COMMAND uses another machine (docs/guides/remote.md).
Start with: sbx run -- uname -a`;

/** The commands by topic, one line each; none of them is loaded. */
function overview(): string {
  const topics = TOPICS.map(({ title, commands }) => ({
    title,
    commands: commands.map((name) => ({ name, summary: SUMMARIES[name] })),
  }));
  return formatOverview(TITLE, topics, END, helpWidth());
}
