import type { Command } from "../../../lib/base/args/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import { plain, print } from "../../../lib/base/print/mod.ts";
import { usageError } from "../output.ts";
import { SCRIPTS } from "./complete_scripts.ts";
import type { Offer } from "./complete_words.ts";

/** The scripts' question. */
const WORDS = "words";

export const command: Command = {
  name: "completions",
  usage: "bash|zsh|fish",
  summary: "print a shell script that completes commands and options",
  notes: [
    "Names and ids of this user's VMs, profiles, settings, images, asks and events are completed too; the service is not started for it.",
  ],
  options: [],
  words: { min: 1, max: 1 },
  completes: [Object.keys(SCRIPTS)],
  program: true,
  examples: [
    'eval "$(sbx completions bash)"',
    "sbx completions zsh > ~/.zfunc/_sbx",
    "sbx completions fish > ~/.config/fish/completions/sbx.fish",
  ],
  async run({ words: [shell], program }) {
    if (shell === WORDS && program) {
      const { offer } = await import("./complete_words.ts");
      // A shell that waits for words has no place for an error.
      const { words, paths } = await offer(program).catch((): Offer => ({ words: [] }));
      const lines = words.map(({ word, about = "" }) => `${word}\t${plain(about)}`);
      if (paths) lines.push(`\t${paths}`);
      if (lines.length > 0) await print(lines.join("\n"));
      return 0;
    }
    if (!Object.hasOwn(SCRIPTS, shell)) {
      const near = didYouMean(shell, Object.keys(SCRIPTS));
      throw usageError(command, `unsupported shell "${shell}"`, near ?? "use bash, zsh or fish");
    }
    await print(SCRIPTS[shell]);
    return 0;
  },
};
