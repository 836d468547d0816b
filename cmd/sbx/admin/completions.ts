import type { JobList, VmSummary } from "../../../lib/client/api/mod.ts";
import {
  type Command,
  type CommandGroup,
  flagsOf,
  HELP_OPTION,
  isGroup,
  lastWordOf,
  type Option,
} from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { gatewayClient } from "../../../lib/client/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { usageError } from "../output.ts";
import { allCommands } from "../commands.ts";

type Entry = Command | CommandGroup;

const SHELLS: Record<string, (commands: Entry[]) => string> = { bash, zsh, fish };
/** Words that the scripts ask for: names of VMs, ids of jobs. None starts the service. */
const NAMES = "names", JOBS_ALL = "jobs-all", JOBS_RUNNING = "jobs-running";

export const command: Command = {
  name: "completions",
  usage: "bash|zsh|fish",
  summary: "print a shell script that completes commands and options",
  notes: ["It completes names of VMs and ids of jobs too."],
  options: [],
  words: { min: 1, max: 1 },
  examples: [
    'eval "$(sbx completions bash)"',
    "sbx completions zsh > ~/.zfunc/_sbx",
    "sbx completions fish > ~/.config/fish/completions/sbx.fish",
  ],
  async run({ words: [shell] }) {
    if ([NAMES, JOBS_ALL, JOBS_RUNNING].includes(shell)) return await printWords(shell);
    if (!Object.hasOwn(SHELLS, shell)) {
      throw usageError(command, `unsupported shell "${shell}"`, "use bash, zsh or fish");
    }
    await print(SHELLS[shell](await allCommands()));
    return 0;
  },
};

async function printWords(source: string): Promise<number> {
  const client = await gatewayClient(home());
  if (client === undefined) return 0;
  if (source === NAMES) {
    const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
    for (const { name } of vms) await print(name);
  } else {
    const { jobs } = await client.json<JobList>("GET", "/jobs");
    const wanted = jobs.filter(({ state }) => source === JOBS_ALL || state !== "Ended");
    for (const { id } of wanted) await print(id);
  }
  return 0;
}

/** Shell's call for the words of a command that only sbx knows. */
function lookupOf({ completesNames, completesJobs }: Command): string | undefined {
  const jobs = completesJobs && (completesJobs === "all" ? JOBS_ALL : JOBS_RUNNING);
  const source = completesNames ? NAMES : jobs;
  return source && `sbx completions ${source} 2>/dev/null`;
}

/** Completions of a command: its options, its subcommands or its fixed words. */
function wordsOf(command: Entry, commands: Entry[]): string[] {
  if (isGroup(command)) return command.subcommands.map(lastWordOf);
  const options = optionsOf(command).flatMap(flagsOf);
  if (command.name === "completions") return [...options, ...Object.keys(SHELLS)];
  return command.name === "help" ? [...options, ...commands.map(({ name }) => name)] : options;
}

function optionsOf({ options }: Command): Option[] {
  return [...options, HELP_OPTION];
}

function bash(commands: Entry[]): string {
  const words = (command: Entry) => {
    const lookup = isGroup(command) ? undefined : lookupOf(command);
    return `words="${wordsOf(command, commands).join(" ")}${lookup ? ` $(${lookup})` : ""}"`;
  };
  const cases = commands.flatMap((command) => [
    `    "${command.name} ") ${words(command)} ;;`,
    ...(isGroup(command) ? command.subcommands.map((each) => `    "${each.name}") ${words(each)} ;;`) : []),
    ...(isGroup(command) ? [] : [`    "${command.name} "*) ${words(command)} ;;`]),
  ]);
  return `_sbx() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words="" second=""
  local i
  for ((i = 2; i < COMP_CWORD; i++)); do
    [[ "\${COMP_WORDS[i]}" == -- ]] && { COMPREPLY=(); return; }
  done
  if ((COMP_CWORD == 1)); then
    words="${commands.map(({ name }) => name).join(" ")}"
  else
    ((COMP_CWORD > 2)) && second="\${COMP_WORDS[2]}"
    case "\${COMP_WORDS[1]} $second" in
${cases.join("\n")}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if ((COMP_CWORD > 1 && \${#COMPREPLY[@]} == 0)); then COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -F _sbx sbx`;
}

function zsh(commands: Entry[]): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const list = commands.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`);
  const flags = (command: Command) =>
    optionsOf(command).flatMap((option) => flagsOf(option).map((flag) => quote(`${flag}:${option.about}`)))
      .join(" ");
  const names = (command: Command) => {
    const lookup = lookupOf(command);
    if (lookup) return `names=(\${(f)"$(${lookup})"})`;
    return `names=(${
      wordsOf(command, commands).filter((word) => !word.startsWith("-")).map(quote).join(" ")
    })`;
  };
  const cases = commands.flatMap((command) => {
    if (!isGroup(command)) {
      return [`    "${command.name} "*) options=(${flags(command)}); ${names(command)} ;;`];
    }
    const subcommands = command.subcommands.map((each) => quote(`${lastWordOf(each)}:${each.summary}`))
      .join(" ");
    return [
      `    "${command.name} ") options=(${subcommands}); names=(${
        wordsOf(command, commands).map(quote).join(" ")
      }) ;;`,
      ...command.subcommands.map((each) => `    "${each.name}") options=(${flags(each)}); ${names(each)} ;;`),
    ];
  });
  return `#compdef sbx
_sbx() {
  local -a commands options names
  local second=""
  commands=(
${list.join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  ((CURRENT > 3)) && second="\${words[3]}"
  case "\${words[2]} $second" in
${cases.join("\n")}
  esac
  [[ "\${words[CURRENT]}" == -* ]] && _describe option options
  ((\${#names})) && compadd -a names
  _files
}
compdef _sbx sbx`;
}

function fish(commands: Entry[]): string {
  const quote = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const linesOf = (command: Command, condition: string) => [
    ...optionsOf(command).map(({ name, short, value, about }) =>
      `complete -c sbx ${condition} -l ${name}${short ? ` -s ${short}` : ""}${value ? " -r" : ""} -d ${
        quote(about)
      }`
    ),
    ...wordsOf(command, commands).filter((word) => !word.startsWith("-")).map((word) =>
      `complete -c sbx ${condition} -f -a ${word}`
    ),
    ...[lookupOf(command)].filter((lookup) => lookup !== undefined).map((lookup) =>
      `complete -c sbx ${condition} -f -a '(${lookup})'`
    ),
  ];
  const lines = commands.flatMap((command) => {
    const first = `complete -c sbx -n __fish_use_subcommand -f -a ${command.name} -d ${
      quote(command.summary)
    }`;
    const seen = `__fish_seen_subcommand_from ${command.name}`;
    if (!isGroup(command)) return [first, ...linesOf(command, `-n '${seen}'`)];
    const names = command.subcommands.map(lastWordOf);
    const none = `-n '${seen}; and not __fish_seen_subcommand_from ${names.join(" ")}'`;
    return [
      first,
      ...command.subcommands.map((each) =>
        `complete -c sbx ${none} -f -a ${lastWordOf(each)} -d ${quote(each.summary)}`
      ),
      ...command.subcommands.flatMap((each) =>
        linesOf(each, `-n '${seen}; and __fish_seen_subcommand_from ${lastWordOf(each)}'`)
      ),
    ];
  });
  return lines.join("\n");
}
