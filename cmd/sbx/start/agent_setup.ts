/**
 * `--with-setup`: a person's own configuration of an agent is shown, asked
 * about, and goes into the agent's VM.
 */
import type { CredentialList, CredentialView } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { ifFound, SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { count, quoteWord } from "../../../lib/base/text/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { refOf as refOfSecret } from "../../../lib/credential/mod.ts";
import {
  type Approval,
  forgetApproval,
  movedPlaces,
  readApproval,
  type RefOf,
  Setup,
  writeApproval,
} from "../../../lib/setup/mod.ts";
import { isYes } from "../confirm.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { type AgentProfile, agentProfile } from "./agent_start.ts";
import type { ChosenSetup } from "./agent_setup_put.ts";
import { formatSetup, setupJson } from "./agent_setup_text.ts";

/** Fewest characters of a hash that name a setup. */
const HASH_MIN = 12;

/** Options that answer for a setup without a terminal. */
const ANSWER_OPTIONS: Option[] = [
  { name: "approve", value: "HASH", about: "agree to the setup that was shown with this hash" },
  { name: "no-programs", about: "none of the hooks, MCP servers and programs of the setup" },
];

/** Options of commands that put a setup into a new VM. */
export const SETUP_OPTIONS: Option[] = [
  {
    name: "with-setup",
    about: "your own configuration of the agent goes in too, after it was shown (docs/guides/agents.md)",
  },
  ...ANSWER_OPTIONS,
];

export const SETUP: Command = {
  name: "agent setup",
  usage: "AGENT [DIR] [--approve HASH [--no-programs] | --forget] [--json]",
  summary: "show what --with-setup takes of your configuration of an agent",
  notes: ["--approve remembers the answer, until a file of the setup changes."],
  options: [
    ...ANSWER_OPTIONS,
    { name: "forget", about: "ask again next time" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 2 },
  completes: ["agents", "folders"],
  examples: ["sbx agent setup claude", "sbx agent setup claude --forget"],
  run: show,
};

/** Refuses an answer about a setup that does not go. @throws {UsageError} */
export function requireSetupFor(command: Command, args: Arguments): void {
  const answer = args.has("with-setup") ? undefined : ANSWER_OPTIONS.find(({ name }) => args.has(name));
  if (answer) throw usageError(command, `--${answer.name} goes with --with-setup`);
}

/**
 * Reads the person's setup of an agent.
 *
 * @param folder that the agent works on
 * @param key of the agent's provider
 * @throws {SbxError} `agent.no_setup`, `agent.setup_foreign`, `agent.setup_limit`
 */
async function readSetup(
  client: Client,
  { id, name, agent }: AgentProfile,
  folder: string,
  key?: CredentialView,
): Promise<Setup> {
  if (!agent.setup) {
    throw new SbxError("agent.no_setup", `sbx does not know where ${name} has its configuration`, {
      hint: "leave out --with-setup, or write [agent.setup] into its profile (docs/guides/agents.md)",
    });
  }
  const person = await ifFound(Deno.realPath(Deno.env.get("HOME") || "/nonexistent"));
  if (person === undefined) {
    throw new SbxError("agent.no_setup", "HOME names no folder, so there is no setup", { hint: "set HOME" });
  }
  const { credentials } = await client.json<CredentialList>("GET", "/credentials/list");
  const usable = credentials.filter(({ source, decoy, revoked_at }) =>
    source === "added" && !decoy && revoked_at === undefined
  );
  const refOf: RefOf = (provider, token) => {
    const own = usable.filter((each) => each.provider === provider);
    const exact = own.find(({ ref }) => ref === refOfSecret(provider, token));
    return (exact ?? (key?.provider === provider ? key : own.at(-1)))?.ref;
  };
  const moved = movedPlaces(agent.setup, (name) => Deno.env.get(name));
  for (const [path, place] of moved) note(`sbx: ~/${path} is read from ${plain(place)}, as a variable says`);
  const places = { home: person, repository: folder, moved, refOf };
  return await Setup.read(id, agent.setup, places);
}

/**
 * The person's setup of an agent for a new VM, with the answer: by `--approve`, remembered, or to a question.
 *
 * @param what.isEditor an editor started the command: the answer is given in a terminal
 * @returns undefined: none is asked for, or the person has none
 * @throws {SbxError} `agent.setup_unapproved`: no terminal to ask in, or no;
 * `agent.setup_changed`: another one was shown
 */
export async function chooseSetup(
  client: Client,
  profile: AgentProfile,
  { folder, dir, key, isEditor = false }: {
    folder: string;
    dir: string;
    key?: CredentialView;
    isEditor?: boolean;
  },
  args: Arguments,
): Promise<ChosenSetup | undefined> {
  if (!args.has("with-setup")) return undefined;
  const setup = await readSetup(client, profile, folder, key);
  if (setup.files.length === 0) {
    note(`sbx: there is no setup of ${profile.name}${formatSetup(setup, {})}`);
    return undefined;
  }
  const answered = await answerOf(setup, dir, args);
  if (answered) return answered;
  const before = await readApproval(home(), setup.agent);
  note(formatSetup(setup, { before, name: profile.name }));
  if (!Deno.stdin.isTerminal() || args.has("json")) {
    throw unapproved(setup, dir, args, isEditor);
  }
  if (!isYes(`Put ${count(setup.files.length, "file")} into the VM?`)) {
    throw new SbxError("agent.setup_unapproved", "nothing was put into a VM, and none was made", {
      hint: "leave out --with-setup to start without your configuration",
    });
  }
  const approved = askPrograms(setup);
  await writeApproval(home(), setup, approved);
  return { setup, approved: new Set(approved) };
}

/** The answer that options or an earlier question gave. @param dir as the person named it */
async function answerOf(setup: Setup, dir: string, args: Arguments): Promise<ChosenSetup | undefined> {
  const hash = args.text("approve");
  const all = args.has("no-programs") ? [] : setup.programs.map(({ id }) => id);
  if (hash !== undefined) {
    requireHash(setup, dir, hash);
    await writeApproval(home(), setup, all);
    return { setup, approved: new Set(all) };
  }
  const before = await readApproval(home(), setup.agent);
  if (before?.hash !== setup.hash) return undefined;
  const approved = before.programs.filter((id) => all.includes(id));
  note(`sbx: ${describeAnswer(setup, approved.length)}, as agreed on ${before.at.slice(0, 10)}`);
  return { setup, approved: new Set(approved) };
}

function describeAnswer({ agent, files, programs }: Setup, approved: number): string {
  const some = programs.length === 0 ? "" : `, ${approved} of ${count(programs.length, "program")}`;
  return `your setup of ${agent} goes in: ${count(files.length, "file")}${some}`;
}

/** The command that shows a setup, and what becomes of the paths of a folder in it. */
const showing = ({ agent }: Setup, dir: string) =>
  ["sbx", "agent", "setup", agent, ...dir === "." ? [] : [dir]].map(quoteWord).join(" ");

/** @throws {SbxError} `agent.setup_changed`, `usage.invalid` */
function requireHash(setup: Setup, dir: string, hash: string): void {
  const shows = showing(setup, dir);
  if (!/^[0-9a-f]+$/.test(hash) || hash.length < HASH_MIN) {
    throw new SbxError(
      "usage.invalid",
      `--approve needs the hash that was shown, ${HASH_MIN} or more characters`,
      {
        hint: `${shows} shows it`,
      },
    );
  }
  if (setup.hash.startsWith(hash)) return;
  throw new SbxError(
    "agent.setup_changed",
    `your setup of ${setup.agent} is not the one with the hash ${hash}`,
    {
      hint: `${shows} shows it as it is now`,
    },
  );
}

function unapproved(setup: Setup, dir: string, args: Arguments, isEditor: boolean): SbxError {
  const { agent, hash } = setup;
  const problem = "the setup above needs your answer, and there is no terminal for it";
  if (isEditor) {
    // The editor's person does not see it, and repeats no command line of the editor.
    const short = hash.slice(0, HASH_MIN);
    return new SbxError("agent.setup_unapproved", problem, {
      hint: `in a terminal, ${showing(setup, dir)} shows it, and with --approve ${short} agrees to it`,
    });
  }
  const task = args.text("prompt");
  const command = [
    "sbx",
    "agent",
    agent,
    dir,
    ...task === undefined ? [] : ["-p", "…"],
    "--with-setup",
    "--approve",
    hash.slice(0, HASH_MIN),
  ];
  return new SbxError(
    "agent.setup_unapproved",
    "the setup above needs your answer, and there is no terminal for it",
    {
      hint: `${
        command.map((word) => word === "…" ? '"…"' : quoteWord(word)).join(" ")
      } agrees to it; with --no-programs to its texts and settings alone`,
    },
  );
}

/** Asks which of the programs go. @returns their ids */
function askPrograms({ programs }: Setup): string[] {
  if (programs.length === 0) return [];
  for (;;) {
    const answer = prompt("Which of its programs: all, none, or their numbers (1 3)? [none]")?.trim() ?? "";
    if (/^(none|no|n|)$/i.test(answer)) return [];
    if (/^(all|a)$/i.test(answer)) return programs.map(({ id }) => id);
    const numbers = answer.split(/[\s,]+/).map(Number);
    if (numbers.every((each) => Number.isInteger(each) && each >= 1 && each <= programs.length)) {
      return [...new Set(numbers)].map((each) => programs[each - 1].id);
    }
    note(`numbers are 1 to ${programs.length}`);
  }
}

async function show(args: Arguments): Promise<number> {
  const [id, dir = "."] = args.words;
  const profile = await agentProfile(id, "sbx agent setup");
  if (args.has("forget") && ANSWER_OPTIONS.some(({ name }) => args.has(name))) {
    throw usageError(SETUP, "--forget cannot be combined with an answer");
  }
  if (args.has("no-programs") && !args.has("approve")) {
    throw usageError(SETUP, "--no-programs goes with --approve");
  }
  if (args.has("forget")) {
    forgetApproval(home(), id);
    if (args.has("json")) await printJson({ agent: id, approved: false });
    else await print(`--with-setup asks about ${profile.name} again`);
    return 0;
  }
  const folder = await ifFound(Deno.realPath(dir));
  if (folder === undefined) throw new SbxError("path.not_found", `there is no folder ${dir}`);
  const setup = await readSetup(await connect(), profile, folder);
  const isAnswer = args.has("approve");
  if (isAnswer) await answerOf(setup, dir, args);
  const before: Approval | undefined = await readApproval(home(), id);
  if (args.has("json")) await printJson(setupJson(setup, before));
  else if (isAnswer) await print(describeAnswer(setup, before?.programs.length ?? 0));
  else if (setup.files.length === 0) {
    await print(`there is no setup of ${profile.name}${formatSetup(setup, {})}`);
  } else await print(formatSetup(setup, { before, name: profile.name }));
  return 0;
}
