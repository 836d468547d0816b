import type {
  AskList,
  CredentialList,
  DeletedVm,
  JobList,
  ProfileList,
  ProviderList,
  SessionList,
  SnapshotList,
  TemplateList,
  TimelineResult,
  VmSummary,
} from "../../../lib/client/api/mod.ts";
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
} from "../../../lib/base/args/mod.ts";
import type { SettingsNode } from "../../../lib/config/settings/node/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { type Client, gatewayClient, segment } from "../../../lib/client/mod.ts";
import { plain, print } from "../../../lib/base/print/mod.ts";
import { PROGRAM, usageError } from "../output.ts";
import { ALIASES, COMMANDS, loadCommand } from "../commands.ts";
import { SUMMARIES } from "../summaries.ts";

/**
 * Each script asks for the candidates of the last of its words, a line each, with a tab before a description. So what completes is
 * in one place, in TypeScript, and a script stays right when sbx is updated.
 */
const SHELLS: Record<string, string> = {
  bash: `_sbx() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("\${line%%$'\\t'*}"); done < <(
    sbx completions words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _sbx sbx`,
  zsh: `#compdef sbx
_sbx() {
  local line
  local -a found
  for line in "\${(@f)$(sbx completions words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -z $line ]] || found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#found} )); then _describe sbx found; else _files; fi
}
compdef _sbx sbx`,
  fish: `function __sbx_words
  set -l words (commandline -opc) (commandline -ct)
  set -l found (sbx completions words -- $words[2..-1] 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c sbx -f -a '(__sbx_words)'`,
};
/** The scripts' question. */
const WORDS = "words";

export const command: Command = {
  name: "completions",
  usage: "bash|zsh|fish",
  summary: "print a shell script that completes commands and options",
  notes: [
    "It completes names of VMs, profiles, settings and snapshots and ids of jobs, asks and refused events too, while sbx runs.",
  ],
  options: [],
  words: { min: 1, max: 1 },
  completes: [Object.keys(SHELLS)],
  program: true,
  examples: [
    'eval "$(sbx completions bash)"',
    "sbx completions zsh > ~/.zfunc/_sbx",
    "sbx completions fish > ~/.config/fish/completions/sbx.fish",
  ],
  async run({ words: [shell], program }) {
    if (shell === WORDS && program) {
      for (const { word, about = "" } of await candidates(program)) {
        await print(`${plain(word)}\t${plain(about)}`);
      }
      return 0;
    }
    if (!Object.hasOwn(SHELLS, shell)) {
      throw usageError(command, `unsupported shell "${shell}"`, "use bash, zsh or fish");
    }
    await print(SHELLS[shell]);
    return 0;
  },
};

/** A word that completes. */
interface Candidate {
  word: string;
  about?: string;
}

/** @param words of the command line after `sbx`; the last one is completed */
async function candidates(words: readonly string[]): Promise<Candidate[]> {
  const typed = words.slice(0, -1);
  const last = words.at(-1) ?? "";
  const all = typed.length === 0 ? commandNames() : await candidatesAfter(typed, last);
  return all.filter(({ word }) => word.startsWith(last));
}

function commandNames(): Candidate[] {
  return COMMANDS.map((word) => ({ word, about: SUMMARIES[word] }));
}

/** Candidates after the first word. An unknown command has none. */
async function candidatesAfter([name, ...rest]: string[], last: string): Promise<Candidate[]> {
  const known = ALIASES.get(name) ?? name;
  if (!COMMANDS.includes(known) || rest.includes("--")) return [];
  const entry = await loadCommand(known);
  if (!isGroup(entry)) return await candidatesOf(entry, rest, last);
  const call = await findSubcommand(PROGRAM, entry, rest).catch(() => undefined);
  const names = rest.length === 0 ? subcommandNames(entry) : [];
  return [...names, ...call?.command ? await candidatesOf(call.command, call.rest, last) : []];
}

function subcommandNames({ subcommands }: CommandGroup): Candidate[] {
  return subcommands.map((each) => ({ word: lastWordOf(each), about: each.summary }));
}

/** Candidates for the next word of a command: the value of an option, a flag, or a word of its own. */
async function candidatesOf(command: Command, rest: readonly string[], last: string): Promise<Candidate[]> {
  const options = [...command.options, HELP_OPTION];
  const words: string[] = [];
  let open: Option | undefined;
  for (const word of rest) {
    if (open) open = undefined;
    else if (word.startsWith("-")) {
      open = options.find((option) => option.value !== undefined && flagsOf(option).includes(word));
    } else words.push(word);
  }
  if (open) return await wordsOf(open.choices ?? open.completes ?? [], words);
  if (last.startsWith("-")) {
    return options.flatMap((option) => flagsOf(option).map((word) => ({ word, about: option.about })));
  }
  const { completes = [], words: { max } = { max: 0 } } = command;
  return words.length < max ? await wordsOf(completes[words.length] ?? completes.at(-1) ?? [], words) : [];
}

/** The words of a list, or of a lookup in the service, which is not started for it. */
async function wordsOf(completion: Completion, before: readonly string[]): Promise<Candidate[]> {
  if (typeof completion !== "string") return completion.map((word) => ({ word }));
  if (completion === "agents") {
    const { agentProfiles } = await import("../start/agent_start.ts");
    return (await agentProfiles()).map(({ id, name }) => ({ word: id, about: name }));
  }
  const client = await gatewayClient(home());
  return client ? await LOOKUPS[completion](client, before[0]) : [];
}

/** Most refused events that are offered: the latest of the newest session. */
const EVENTS_MAX = 20;

/** Looks words up; `vm` is the first word of the command. */
const LOOKUPS: Record<Exclude<Lookup, "agents">, (client: Client, vm: string) => Promise<Candidate[]>> = {
  async vms(client) {
    const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
    return vms.map(({ name, status, profile_id }) => ({ word: name, about: `${status}, ${profile_id}` }));
  },
  async "deleted vms"(client) {
    const { vms } = await client.json<{ vms: DeletedVm[] }>("GET", "/vms/deleted");
    return vms.map(({ name, deleted_at }) => ({ word: name, about: `deleted ${deleted_at}` }));
  },
  jobs: (client) => jobs(client),
  "running jobs": (client) => jobs(client, (state) => state !== "Ended"),
  async profiles(client) {
    const { profiles } = await client.json<ProfileList>("GET", "/profiles/list");
    return profiles.map(({ id, description }) => ({ word: id, about: description }));
  },
  async settings(client) {
    const { tree } = await client.json<{ tree: SettingsNode[] }>("GET", "/settings/info");
    const leaves = (nodes: SettingsNode[]): Candidate[] =>
      nodes.flatMap((node) => {
        if (node.kind === "group") return leaves(node.children);
        return node.kind === "leaf" ? [{ word: node.id, about: node.description }] : [];
      });
    return leaves(tree);
  },
  async snapshots(client, vm) {
    const { snapshots } = await client.json<SnapshotList>("GET", `/vms/${segment(vm)}/snapshots/list`);
    return snapshots.map(({ id, created_unix_ms, label }) => ({
      word: id,
      about: [new Date(created_unix_ms).toISOString(), label].filter(Boolean).join(", "),
    }));
  },
  async templates(client) {
    const { templates } = await client.json<TemplateList>("GET", "/templates");
    return templates.map(({ id, created_at }) => ({ word: id, about: created_at }));
  },
  async providers(client) {
    const { providers } = await client.json<ProviderList>("GET", "/credentials/providers");
    return providers.map(({ id, title }) => ({ word: id, about: title }));
  },
  async credentials(client) {
    const { credentials } = await client.json<CredentialList>("GET", "/credentials/list");
    return credentials.map(({ ref, provider, label }) => ({
      word: ref,
      about: [provider, label].filter(Boolean).join(", "),
    }));
  },
  async sessions(client) {
    const { sessions } = await client.json<SessionList>("GET", "/sessions/list");
    return [
      ...await LOOKUPS.vms(client, ""),
      ...sessions.map(({ id, name, created_at }) => ({ word: id, about: `${name}, ${created_at}` })),
    ];
  },
  async asks(client) {
    const { asks } = await client.json<AskList>("GET", "/asks");
    return asks.map(({ ask_id, event_type, rule_id }) => ({
      word: ask_id,
      about: `${event_type}, ${rule_id}`,
    }));
  },
  async "refused events"(client) {
    const { sessions: [newest] } = await client.json<SessionList>("GET", "/sessions/list");
    if (!newest) return [];
    const { events } = await client.json<TimelineResult>(
      "GET",
      `/sessions/${segment(newest.id)}/events?denied=true&limit=1000`,
    );
    return events.slice(-EVENTS_MAX).map(({ event_id, event_type }) => ({
      word: String(event_id),
      about: String(event_type),
    }));
  },
};

async function jobs(client: Client, isWanted: (state: string) => boolean = () => true): Promise<Candidate[]> {
  const { jobs } = await client.json<JobList>("GET", "/jobs");
  return jobs.filter(({ state }) => isWanted(state)).map(({ id, state }) => ({ word: id, about: state }));
}
