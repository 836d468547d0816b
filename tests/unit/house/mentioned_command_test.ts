/** Commands named by errors, hints and docs are accepted by the parsers of sbx and sbx-admin. */
import { assert, assertEquals } from "@std/assert";
import { allGroups } from "../../../cmd/admin/main.ts";
import { allCommands } from "../../../cmd/sbx/commands.ts";
import {
  type Command,
  type CommandGroup,
  findSubcommand,
  isGroup,
  parseArguments,
} from "../../../lib/base/args/mod.ts";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

const PROGRAMS: Record<string, (Command | CommandGroup)[]> = {
  "sbx": await allCommands(),
  "sbx-admin": await allGroups(),
};
/** In place of an interpolated value, which may stand for several words. */
const VALUE = "value";

/** Reason for which a call is refused, if it is. */
async function refusal(program: string, argv: string[]): Promise<string | undefined> {
  const [word, ...rest] = argv;
  const entry = PROGRAMS[program].find(({ name }) => name === word);
  if (!entry) return `unknown command "${word}"`;
  // An interpolated name of a subcommand.
  if (isGroup(entry) && rest[0] === VALUE) return;
  try {
    const call = isGroup(entry) ? await findSubcommand(program, entry, rest) : { command: entry, rest };
    if (call.command) await parseArguments({ program, command: call.command }, call.rest);
  } catch (error) {
    // A value may stand for an option, or for nothing.
    if (rest.includes(VALUE)) return await refusal(program, argv.filter((each) => each !== VALUE));
    return (error as Error).message;
  }
}

/**
 * A word of a call, after the names of its command: an option, a placeholder, or a
 * value that is no English word.
 */
const ARGUMENT =
  /^(-{1,2}[a-z][\w-]*(=\S+)?|<[^>]+>|[A-Z][A-Z_…]*|value\S*|\S*[\/.:@=~\d]\S*|"[^"]*"|'[^']*'|true|anthropic|ssh|signing|code|mine)$/;

/** Calls in a sentence: a command's names, then what looks like its arguments. */
function* callsIn(text: string): Generator<{ program: string; argv: string[] }> {
  for (const [, program, after] of text.matchAll(/(?<![\w.\/-])(sbx(?:-admin)?) ([a-z][^\n]*)/g)) {
    const words = after.split(/ +/);
    const argv: string[] = [];
    let level: (Command | CommandGroup)[] | undefined = PROGRAMS[program];
    for (const whole of words) {
      const word = whole.replace(/[,;:.)`’]+$/, "");
      const entry: Command | CommandGroup | undefined = level?.find(({ name }) =>
        name.split(" ").at(-1) === word
      );
      if (entry) level = isGroup(entry) ? entry.subcommands : undefined;
      else if (ARGUMENT.test(word) && argv.length > 0) level = undefined;
      else break;
      argv.push(word);
      if (word !== whole) break;
    }
    if (argv.length > 0) yield { program, argv };
  }
}

Deno.test("every command line in docs is accepted", async () => {
  const refused: string[] = [];
  let count = 0;
  for (const path of await pages()) {
    const text = await Deno.readTextFile(fromRoot(path));
    for (const [, kind, block] of text.matchAll(/^ *```(\w*)\n([\s\S]*?)^ *```/gm)) {
      const lines = block.replaceAll("\\\n", " ").split("\n");
      // Other blocks show output, in which a prompt stands before each call; some show a refusal.
      const isCall = (line: string, at: number) =>
        /^ *\$ /.test(line) && !/unknown command/.test(lines[at + 1] ?? "");
      for (const line of kind === "sh" ? lines : lines.filter(isCall)) {
        for (const { program, argv } of callsInShell(line)) {
          count++;
          const reason = await refusal(program, argv);
          if (reason) refused.push(`${path}: ${program} ${argv.join(" ")}: ${reason}`);
        }
      }
    }
  }
  assert(count > 100, `${count} calls were found`);
  assertEquals(refused, []);
});

Deno.test("every command and option that a sentence of the docs names is there", async () => {
  const refused: string[] = [];
  let count = 0;
  for (const path of await pages()) {
    const text = (await Deno.readTextFile(fromRoot(path))).replaceAll(/^ *```[\s\S]*?^ *```/gm, "");
    for (const [, code] of text.matchAll(/`((?:sbx|sbx-admin) [^`]+)`/g)) {
      for (const { program, argv } of callsIn(code.replaceAll(/[\[\]]/g, "").replaceAll(/\s+/g, " "))) {
        count++;
        const reason = await refusal(program, argv);
        if (/^unknown (command|option|subcommand)/.test(reason ?? "")) {
          refused.push(`${path}: ${code}: ${reason}`);
        }
      }
    }
  }
  assert(count > 100, `${count} calls were found`);
  assertEquals(refused, []);
});

Deno.test("every hint that names a command names one that is accepted as written", async () => {
  const refused: string[] = [];
  let count = 0;
  for (const path of (await Promise.all(["lib", "cmd"].map(codeBelow))).flat()) {
    const source = await Deno.readTextFile(fromRoot(path));
    for (const [, quote, text] of source.matchAll(/\bhint: *\n? *(["`])((?:(?!\1)[^\\]|\\.)*)\1/g)) {
      const sentence = quote === "`" ? text.replaceAll(/\$\{[^}]*\}/g, VALUE) : text;
      for (const { program, argv } of callsIn(sentence)) {
        count++;
        const reason = await refusal(program, argv);
        if (reason) refused.push(`${path}: ${sentence} → ${program} ${argv.join(" ")}: ${reason}`);
      }
    }
  }
  assert(count > 100, `${count} calls were found`);
  assertEquals(refused, []);
});

async function pages(): Promise<string[]> {
  const names: string[] = ["README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md"];
  await below("docs");
  return names;

  async function below(folder: string): Promise<void> {
    for await (const { name, isDirectory } of Deno.readDir(fromRoot(folder))) {
      if (isDirectory) await below(`${folder}/${name}`);
      else if (name.endsWith(".md")) names.push(`${folder}/${name}`);
    }
  }
}

/** Calls of a line of shell, split as a shell does, without redirections and comments. */
function* callsInShell(line: string): Generator<{ program: string; argv: string[] }> {
  const tokens =
    line.match(/(?:"(?:[^"\\]|\\.)*"|'[^']*'|\$\([^)]*\)|[^\s"';|&<>#]|(?<=\S)#)+|[;|&<>]+\(?|#.*/g) ?? [];
  for (let at = 0; at < tokens.length;) {
    const end = tokens.findIndex((token, index) => index >= at && /^([;|&]+|#.*)$/.test(token));
    const words = tokens.slice(at, end < 0 ? undefined : end);
    at = end < 0 ? tokens.length : tokens[end].startsWith("#") ? tokens.length : end + 1;
    const start = words.findIndex((word) => !/^[A-Z_]+=|^(sudo|time|exec|\$)$/.test(word));
    const program = words[start]?.replace(/^.*\//, "");
    if (!(program in PROGRAMS) || words.length === start + 1) continue;
    const redirect = words.findIndex((word, index) => index > start && /^[<>]/.test(word));
    const argv = words.slice(start + 1, redirect < 0 ? undefined : redirect)
      .map((word) => word.replaceAll(/["']/g, ""));
    yield { program, argv: argv[0] === "--host" ? argv.slice(2) : argv };
  }
}
