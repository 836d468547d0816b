/** Advice in errors and issues, and the commands in it. */

/** First words of commands that advice names. */
const PROGRAMS = ["sbx", "sudo", "chmod", "export", "softwareupdate", "sw_vers", "sysctl"];
/** Words after a command that belong to the sentence around it. */
const PROSE = ["activates", "again", "and", "does", "lists", "makes", "or", "shows", "then", "tries", "with"];

/** A problem, the advice about it, and the commands that the advice names. */
export interface Parts {
  what: string;
  advice?: string;
  commands: string[];
}

/** An issue of the service: its advice is in brackets at its end. */
export function partsOf(issue: string): Parts {
  const [, what, advice] = /^(.*\S)\s+\(([^()]*)\)$/s.exec(issue) ?? [];
  // A version or a list of names in brackets is no advice.
  if (advice === undefined || commandsOf(advice).length === 0) return { what: issue, commands: [] };
  return { what, advice, commands: commandsOf(advice) };
}

/** True for words that begin with a command. */
export function isCommand(words: string): boolean {
  return PROGRAMS.includes(words.split(" ", 1)[0]);
}

/** Commands that advice names, in its order. */
export function commandsOf(advice: string): string[] {
  // A whole line of a shell has its own commas and quotes.
  if (/^(?:sudo|chmod|export) [^,]*$/.test(advice)) return [advice];
  return advice.split(/[,;:]\s+|\s(?=sbx )/).flatMap((part) => {
    const words = part.trim().split(/\s+/);
    if (!PROGRAMS.includes(words[0]) || words.length < 2) return [];
    const end = words.findIndex((word) => PROSE.includes(word));
    const command = (end < 0 ? words : words.slice(0, end)).join(" ").replace(/[.:;,]$/, "");
    return command.includes(" ") ? [command] : [];
  });
}
