import {
  type Command,
  formatHelp,
  formatOverview,
  helpWidth,
  unknownCommand,
} from "../../../lib/base/args/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { PROGRAM, UTC_NOTE } from "../output.ts";
import { ALIASES, COMMAND_WORDS, COMMANDS, loadCommand, SHORT_FORMS, TOPICS, TRIED } from "../commands.ts";
import { SUMMARIES } from "../summaries.ts";

export const command: Command = {
  name: "help",
  usage: "[COMMAND]",
  summary: "list the commands, or show the help of one",
  options: [],
  words: { min: 0, max: 1 },
  completes: [COMMANDS],
  examples: ["sbx help", "sbx help run"],
  async run({ words: [word] }) {
    if (word === undefined) return await print(overview()), 0;
    const name = ALIASES.get(word) ?? SHORT_FORMS.get(word)?.[0] ?? word;
    if (!COMMANDS.includes(name)) {
      throw await unknownCommand(PROGRAM, name, COMMAND_WORDS, TRIED.get(name)?.hint);
    }
    await print(formatHelp(PROGRAM, await loadCommand(name), helpWidth()));
    return 0;
  },
};

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
