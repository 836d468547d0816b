/** Completion of a command line: commands, options, their values, and words that are looked up. */
import {
  type Command,
  type CommandGroup,
  type Completion,
  findSubcommand,
  flagsOf,
  HELP_OPTION,
  isGroup,
  lastWordOf,
  type Lookup,
  type Option,
  type Paths,
} from "../../../lib/base/args/mod.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { type Client, gatewayClient } from "../../../lib/client/mod.ts";
import { ALIASES, COMMANDS, loadCommand, SHORT_FORMS } from "../commands.ts";
import { HOST_VARIABLE } from "../host.ts";
import { PROGRAM } from "../output.ts";
import { SUMMARIES } from "../summaries.ts";
import { type Candidate, LOOKUPS, type Place } from "./complete_lookups.ts";

/** Longest wait for words that are looked up, in `ms`: a person waits with a finger on the key. */
const LOOKUP_MS = timeLimit(1500);
/** Most words of an answer. */
const WORDS_MAX = 200;
/** Most characters of a description, which stands beside its word. */
const ABOUT_MAX = 80;

/** Words for the shell to offer, and paths that it finds itself. */
export interface Offer {
  words: Candidate[];
  paths?: Paths;
}

const NOTHING: Offer = { words: [] };
const FILES: Offer = { words: [], paths: "files" };

/** Completions of options by their placeholder, where an option has none of its own. */
const BY_VALUE: Readonly<Record<string, Completion>> = {
  FILE: "files",
  DIR: "folders",
  PROFILE: "profiles",
  IMAGE: "images",
  "PROVIDER=LABEL": "labels",
  LABEL: "labels",
  PROVIDER: "providers",
};

/** One command line, up to the word that is completed. */
interface Line {
  words: string[];
  options: ReadonlyMap<string, string>;
  /** names of the options that it has, switches too */
  given: ReadonlySet<string>;
  last: string;
  /** false for another machine, which is not asked: it may be slow to reach */
  isLocal: boolean;
}

/** @param words of the command line after `sbx`; the last one is completed */
export async function offer(words: readonly string[]): Promise<Offer> {
  const last = words.at(-1) ?? "";
  const { typed, isLocal } = withoutHost(words.slice(0, -1));
  const { words: all, paths } = typed === undefined
    ? NOTHING
    : typed.length === 0
    ? { words: commandNames(last) }
    : await afterCommand(typed, last, isLocal);
  // A word with a control character would be another one when it is typed.
  const fitting = all.filter(({ word }) => word.startsWith(last) && word !== "" && plain(word) === word);
  return {
    words: fitting.slice(0, WORDS_MAX).map(({ word, about }) => ({
      word,
      about: about?.replaceAll(/\s+/g, " ").slice(0, ABOUT_MAX),
    })),
    paths,
  };
}

/** Takes `--host ADDRESS` off the front. @returns no words: its address is completed */
function withoutHost(typed: readonly string[]): { typed?: readonly string[]; isLocal: boolean } {
  const isHere = !Deno.env.get(HOST_VARIABLE);
  if (typed[0] === "--host") return { typed: typed.length < 2 ? undefined : typed.slice(2), isLocal: false };
  if (typed[0]?.startsWith("--host=")) return { typed: typed.slice(1), isLocal: false };
  return { typed, isLocal: isHere };
}

/** Commands; other words for them only where no command begins so. */
function commandNames(last: string): Candidate[] {
  const names = COMMANDS.map((word) => ({ word, about: SUMMARIES[word] }));
  if (last.startsWith("-")) {
    return ["--help", "--version", "--host"].map((word) => ({ word }));
  }
  if (names.some(({ word }) => word.startsWith(last))) return names;
  const short = Array.from(SHORT_FORMS, ([word, [name]]): [string, string] => [word, name]);
  return [...ALIASES, ...short].map(([word, name]) => ({ word, about: SUMMARIES[name] }));
}

/** Words that may follow the first one; an unknown command has none. */
async function afterCommand(
  [name, ...rest]: readonly string[],
  last: string,
  isLocal: boolean,
): Promise<Offer> {
  const short = SHORT_FORMS.get(name);
  if (short) return await afterCommand([...short, ...rest], last, isLocal);
  const known = ALIASES.get(name) ?? name;
  if (!COMMANDS.includes(known)) return NOTHING;
  if (known === "help" && rest.length === 1) return await helpWords(rest[0]);
  const entry = await loadCommand(known);
  if (!isGroup(entry)) return await ofCommand(entry, rest, last, isLocal);
  const call = await findSubcommand(PROGRAM, entry, rest).catch(ignore("an unknown subcommand has no words"));
  const names = rest.length === 0 ? subcommandNames(entry) : [];
  const { words, paths } = call?.command ? await ofCommand(call.command, call.rest, last, isLocal) : NOTHING;
  return { words: [...names, ...words], paths };
}

/** Words that may follow `sbx help COMMAND`. */
async function helpWords(word: string): Promise<Offer> {
  const name = ALIASES.get(word) ?? word;
  const entry = COMMANDS.includes(name) ? await loadCommand(name) : undefined;
  return entry && isGroup(entry) ? { words: subcommandNames(entry) } : NOTHING;
}

function subcommandNames({ subcommands }: CommandGroup): Candidate[] {
  return subcommands.map((each) => ({ word: lastWordOf(each), about: each.summary }));
}

/** Words that may follow those of a command: the value of an option, a flag, or a word of its own. */
async function ofCommand(
  command: Command,
  rest: readonly string[],
  last: string,
  isLocal: boolean,
): Promise<Offer> {
  if (rest.includes("--")) return command.program ? FILES : NOTHING;
  const all = [...command.options, HELP_OPTION];
  const words: string[] = [];
  const options = new Map<string, string>();
  const given = new Set<string>();
  let open: Option | undefined;
  for (const word of rest) {
    if (open) {
      options.set(open.name, word);
      open = undefined;
    } else if (word.startsWith("-") && word !== "-") {
      const [flag, value] = splitFlag(word);
      const option = all.find((each) => flagsOf(each).includes(flag));
      if (option) given.add(option.name);
      if (option && value !== undefined) options.set(option.name, value);
      else if (option?.value !== undefined) open = option;
    } else words.push(word);
  }
  const line = { words, options, given, last, isLocal };
  if (open) return await wordsOf(valuesOf(open), line);
  const [flag, value] = splitFlag(last);
  if (value !== undefined) {
    const option = all.find((each) => each.value !== undefined && flagsOf(each).includes(flag));
    if (!option) return NOTHING;
    const { words, paths } = await wordsOf(valuesOf(option), { ...line, last: value });
    return { words: words.map(({ word, about }) => ({ word: `${flag}=${word}`, about })), paths };
  }
  if (last.startsWith("-")) {
    const left = all.filter(({ name, many }) => many || !given.has(name));
    return {
      words: left.flatMap((option) => flagsOf(option).map((word) => ({ word, about: option.about }))),
    };
  }
  const { completes = [], words: { max } = { max: 0 } } = command;
  if (words.length >= max) return NOTHING;
  return await wordsOf(completes[words.length] ?? completes.at(-1) ?? [], line);
}

/** `--name=value` in its parts. */
function splitFlag(word: string): [flag: string, value?: string] {
  const equals = word.startsWith("--") ? word.indexOf("=") : -1;
  return equals < 0 ? [word] : [word.slice(0, equals), word.slice(equals + 1)];
}

function valuesOf({ value = "", choices, completes }: Option): Completion {
  return choices ?? completes ?? BY_VALUE[value] ?? [];
}

async function wordsOf(completion: Completion, line: Line): Promise<Offer> {
  if (completion instanceof Array) return { words: completion.map((word) => ({ word })) };
  const parts = typeof completion === "string" ? [completion] : completion.either;
  const offer: Offer = { words: [] };
  for (const part of parts) {
    if (part === "files" || part === "folders") offer.paths = part;
    else offer.words.push(...await lookUp(part, line));
  }
  // After "demo:" come paths of the VM.
  if (parts.includes("vm paths") && line.last.includes(":")) delete offer.paths;
  offer.words = offer.words.filter(({ word }) => !line.words.includes(word));
  return offer;
}

/** Looks words up. An answer that is late counts as empty; the service is not started for it. */
async function lookUp(lookup: Lookup, { words, options, last, isLocal }: Line): Promise<Candidate[]> {
  if (!isLocal) return [];
  const signal = AbortSignal.timeout(LOOKUP_MS);
  const late = new Promise<Candidate[]>((resolve) => {
    signal.addEventListener("abort", () => resolve([]), { once: true });
  });
  let client: Promise<Client | undefined> | undefined;
  const place: Place = {
    words,
    last,
    option: (name) => options.get(name),
    async get(path) {
      const running = await (client ??= gatewayClient(home()));
      if (!running) throw new Error("sbx is not running");
      return await running.json("GET", path, { signal });
    },
  };
  const found = LOOKUPS[lookup](place).catch((): Candidate[] => []);
  return await Promise.race([found, late]);
}
