import type { VmSummary } from "../../../lib/api/vm.ts";
import { gatewayClient } from "../../../lib/client/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { names, usage } from "../arguments.ts";
import { type Command, HELP_OPTION } from "../command.ts";
import { allCommands } from "./mod.ts";
import { print } from "../output.ts";

const SHELLS: Record<string, (commands: Command[]) => string> = { bash, zsh, fish };
/** Word by which the scripts ask for the names of VMs; never starts anything. */
const NAMES = "names";

export const command: Command = {
  name: "completions",
  usage: "bash|zsh|fish",
  summary: "a script that completes commands, options and names of VMs",
  options: [],
  words: { min: 1, max: 1 },
  examples: [
    'eval "$(sbx completions bash)"',
    "sbx completions zsh > ~/.zfunc/_sbx",
    "sbx completions fish > ~/.config/fish/completions/sbx.fish",
  ],
  async run({ words: [shell] }) {
    if (shell === NAMES) return await printNames();
    if (!Object.hasOwn(SHELLS, shell)) {
      throw usage(command, `there are no completions for "${shell}"`, "bash, zsh or fish");
    }
    await print(SHELLS[shell](await allCommands()));
    return 0;
  },
};

async function printNames(): Promise<number> {
  const client = await gatewayClient(home());
  if (client === undefined) return 0;
  const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
  for (const { name } of vms) await print(name);
  return 0;
}

function optionsOf({ options }: Command): string[] {
  return [...options, HELP_OPTION].flatMap(names);
}

/** Words that a command takes beside the names of VMs. */
function wordsOf({ name }: Command, commands: Command[]): string[] {
  if (name === "completions") return Object.keys(SHELLS);
  return name === "help" ? commands.map((other) => other.name) : [];
}

function bash(commands: Command[]): string {
  const cases = commands.map((one) => {
    const words = [...optionsOf(one), ...wordsOf(one, commands)].join(" ");
    const named = one.completesNames ? ` $(sbx completions ${NAMES} 2>/dev/null)` : "";
    return `    ${one.name}) words="${words}${named}" ;;`;
  });
  return `_sbx() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words=""
  local i
  for ((i = 2; i < COMP_CWORD; i++)); do
    [[ "\${COMP_WORDS[i]}" == -- ]] && { COMPREPLY=(); return; }
  done
  if ((COMP_CWORD == 1)); then
    words="${commands.map(({ name }) => name).join(" ")}"
  else
    case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if ((COMP_CWORD > 1 && \${#COMPREPLY[@]} == 0)); then COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -F _sbx sbx`;
}

function zsh(commands: Command[]): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const list = commands.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`);
  const cases = commands.map((one) => {
    const options = [...one.options, HELP_OPTION].map((option) =>
      names(option).map((flag) => quote(`${flag}:${option.about}`)).join(" ")
    ).join(" ");
    const words = wordsOf(one, commands).map(quote).join(" ");
    const named = one.completesNames
      ? `names=(\${(f)"$(sbx completions ${NAMES} 2>/dev/null)"})`
      : `names=(${words})`;
    return `    ${one.name}) options=(${options}); ${named} ;;`;
  });
  return `#compdef sbx
_sbx() {
  local -a commands options names
  commands=(
${list.join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  case "\${words[2]}" in
${cases.join("\n")}
  esac
  [[ "\${words[CURRENT]}" == -* ]] && _describe option options
  ((\${#names})) && compadd -a names
  _files
}
compdef _sbx sbx`;
}

function fish(commands: Command[]): string {
  const quote = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines = commands.flatMap((one) => {
    const used = `-n '__fish_seen_subcommand_from ${one.name}'`;
    return [
      `complete -c sbx -n __fish_use_subcommand -f -a ${one.name} -d ${quote(one.summary)}`,
      ...[...one.options, HELP_OPTION].map(({ name, short, value, about }) =>
        `complete -c sbx ${used} -l ${name}${short ? ` -s ${short}` : ""}${value ? " -r" : ""} -d ${
          quote(about)
        }`
      ),
      ...wordsOf(one, commands).map((word) => `complete -c sbx ${used} -f -a ${word}`),
      ...(one.completesNames
        ? [`complete -c sbx ${used} -f -a '(sbx completions ${NAMES} 2>/dev/null)'`]
        : []),
    ];
  });
  return lines.join("\n");
}
