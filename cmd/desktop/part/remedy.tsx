/** The remedy of a problem, with a button that copies each command in it. */
import { CommandLine } from "./common.tsx";
import { isCommand, partsOf } from "./advice.ts";

/** A problem as the service reports it, with its commands to copy below. */
export function Problem({ issue }: { issue: string }) {
  const { what, advice, commands } = partsOf(issue);
  return (
    <>
      <strong>{sentenceOf(what)}</strong>
      {advice !== undefined && <Advice text={advice} commands={commands} />}
    </>
  );
}

/** Advice that is one command is that command; other advice keeps its words. */
export function Advice({ text, commands }: { text: string; commands: string[] }) {
  return (
    <>
      {commands.join() !== text && <p class="hint">{sentenceOf(text)}</p>}
      {commands.map((command) => <CommandLine key={command} command={command} />)}
    </>
  );
}

/** Words as a sentence of their own; a command keeps its small letter. */
export const sentenceOf = (words: string): string =>
  isCommand(words) ? words : words.slice(0, 1).toUpperCase() + words.slice(1);
