import { currentArch } from "../../../lib/base/arch/mod.ts";
import type { AskList, AskResolve, AskView, Job, JobList, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type Agent, bootAssets, PROMPT } from "../../../lib/config/profile/mod.ts";
import { sourcesOf } from "../../../lib/repo/mod.ts";
import { formatReport, reportOf } from "./agent_report.ts";
import {
  type AgentProfile,
  agentProfile,
  agentProfiles,
  type AgentVm,
  createVm,
  requireImage,
  requireKey,
} from "./agent_start.ts";
import { Banner } from "../vm/attach.ts";
import { connect, openAskSocket } from "../connect.ts";
import { table, usageError } from "../output.ts";
import { SBX_FAILED } from "../vm/program.ts";
import { BRING_OPTIONS } from "../files/repository.ts";
import { attachJob } from "../vm/jobs.ts";
import { READ_MS } from "../../../lib/policy/ask/mod.ts";

const RUN: Command = {
  name: "agent run",
  usage: "AGENT [DIR] [-p PROMPT] [OPTIONS] [-- ARGS…]",
  summary: "start a coding agent on a folder in a VM of its own; also: sbx agent AGENT [DIR]",
  notes: [
    "DIR (default .) is brought in as with sbx create --from-dir; sbx pull takes the work back as a branch.",
    "Requests that the agent's profile does not allow wait for an answer. The exit code is the agent's.",
  ],
  options: [
    { name: "prompt", short: "p", value: "TEXT", about: "work on this without a terminal" },
    { name: "detach", short: "d", about: "start it as a job; sbx agent attach connects to it" },
    { name: "name", value: "NAME", about: "name of the VM; default AGENT-FOLDER" },
    { name: "build", about: "build the agent's image without a question if it is missing" },
    ...BRING_OPTIONS,
    { name: "live", about: "give the VM the folder itself, read-write, with masks (docs/guides/live.md)" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 2 },
  completes: ["agents", []],
  program: true,
  failure: SBX_FAILED,
  examples: [
    "sbx agent run claude",
    'sbx agent run codex ~/project -p "fix the failing test"',
    "sbx agent run gemini . -- --debug",
  ],
  run,
};

export const command: CommandGroup = {
  name: "agent",
  summary: "run a coding agent on a folder, in a VM of its own",
  notes: ["docs/guides/agents.md explains it."],
  fallback: "run",
  subcommands: [
    RUN,
    {
      name: "agent list",
      usage: "[--json]",
      summary: "list the agents",
      options: [JSON_OPTION],
      examples: ["sbx agent list"],
      run: list,
    },
    {
      name: "agent attach",
      usage: "VM",
      summary: "connect to the agent that runs in a VM",
      options: [],
      words: { min: 1, max: 1 },
      completes: ["vms"],
      failure: SBX_FAILED,
      examples: ["sbx agent attach claude-project"],
      run: attachTo,
    },
  ],
};

async function run(args: Arguments): Promise<number> {
  const [id, dir = "."] = args.words;
  // Before any other error: a hint with a name that does not exist is of no use.
  const profile = await agentProfile(id);
  const task = args.text("prompt");
  const isDetached = args.has("detach");
  if (task === undefined && !isDetached && !Deno.stdin.isTerminal()) {
    throw usageError(RUN, "without a terminal an agent needs a task", `sbx agent ${id} -p "…"`);
  }
  if (args.has("live") && args.has("to")) throw usageError(RUN, "--to cannot be combined with --live");
  const client = await connect();
  // Before the image, which takes minutes to build.
  const ref = await requireKey(client, profile);
  if (!args.has("live")) await sourcesOf(dir);
  await requireImage(profile, args.has("build"));
  const vm = await createVm(client, profile, { dir, ref }, args);
  const job = await start(client, profile, vm, { task, more: args.program ?? [] });
  if (isDetached) {
    await (args.has("json")
      ? printJson({ vm: vm.name, job })
      : print(`${vm.name}: job ${job.id}; sbx agent attach ${vm.name}`));
    return 0;
  }
  const code = await follow(client, vm, job);
  const report = await reportOf(client, { name: vm.name, session: vm.id });
  if (args.has("json")) await printJson({ vm: vm.name, exit_code: code, ...report });
  else note(`\n${formatReport(report, vm.name)}`);
  return code;
}

/** Starts the agent as a job: with a task without a terminal. */
async function start(
  client: Client,
  { agent }: AgentProfile,
  { name, place }: AgentVm,
  { task, more }: { task?: string; more: string[] },
): Promise<Job> {
  const words = task === undefined
    ? agent.command
    : agent.headless.map((word) => word === PROMPT ? task : word);
  const json = { command: [...words, ...more], cwd: place, tty: task === undefined };
  return await client.json<Job>("POST", `/vms/${segment(name)}/jobs`, { json });
}

/** Shows the agent's output and its asks until it ends or is detached from. */
async function follow(client: Client, { id }: Pick<AgentVm, "id">, job: Job): Promise<number> {
  const banner = job.tty ? new Banner() : undefined;
  using _asks = showAsks(client, id, banner);
  return await attachJob(client, job, banner);
}

async function list(args: Arguments): Promise<number> {
  const agents = await Promise.all((await agentProfiles()).map(async (profile) => {
    const image = await bootAssets(home(), profile, currentArch()).then(
      ({ version }) => version,
      () => undefined,
    );
    const { id, name, packages, source, agent: { provider } } = profile;
    return { id, name, provider, source, packages: packages.npm, image };
  }));
  if (args.has("json")) await printJson({ agents });
  else {
    const rows = agents.map((
      { id, name, provider = "", packages, image },
    ) => [id, name, provider, packages.at(-1) ?? "", image ?? "built at its first start"]);
    await print(table(["AGENT", "NAME", "KEY OF", "PACKAGE", "IMAGE"], rows));
  }
  return 0;
}

async function attachTo(args: Arguments): Promise<number> {
  const [name] = args.words;
  const client = await connect();
  const { id, profile_id } = await client.json<VmInfo>("GET", `/vms/${segment(name)}/info`);
  const agent = (await agentProfiles()).find((profile) => profile.id === profile_id)?.agent;
  const { jobs } = await client.json<JobList>("GET", `/vms/${segment(name)}/jobs`);
  const job = jobs.findLast(({ state, argv }) => state !== "Ended" && agent && isAgent(agent, argv));
  if (!job) {
    throw new SbxError("agent.not_found", `no agent runs in "${name}"`, {
      hint: `sbx jobs ${name} shows what has run, sbx shell ${name} opens a terminal`,
    });
  }
  return await follow(client, { id }, job);
}

/** True for the VM's agent among its jobs. */
function isAgent({ command, headless }: Agent, argv: readonly string[]): boolean {
  return [command, headless].some((words) =>
    words.every((word, at) => word === PROMPT || word === argv[at]) && argv.length >= words.length
  );
}

const BELL = "\x07";

/**
 * Shows a session's questions with a bell until it is disposed, including the ones already waiting. With a
 * banner, where a program has the terminal, they are shown there and answered in another terminal; else they
 * are answered in place.
 */
export function showAsks(client: Client, session: string, banner?: Banner): Disposable {
  let shown = Promise.resolve();
  const isTerminal = Deno.stderr.isTerminal();
  const pending = new Map<string, AskView>();
  const onAsk = (ask: AskView) => {
    if (ask.session_id !== session) return;
    const isNew = ask.status === "pending" && !pending.has(ask.ask_id);
    if (ask.status === "pending") pending.set(ask.ask_id, ask);
    else pending.delete(ask.ask_id);
    if (isNew && isTerminal) write(BELL);
    if (banner) banner.set(lineOf([...pending.values()]));
    // One question at a time.
    else if (isNew) {
      shown = shown.then(() => answerHere(client, ask))
        .catch((error) => report(`the answer to ${ask.ask_id} was not taken`, error));
    }
  };
  const socket = openAskSocket(client, onAsk);
  client.json<AskList>("GET", "/asks").then(({ asks }) => asks.forEach(onAsk)).catch((error) => {
    // The program's screen must not be written over; new asks come by the socket.
    if (!banner) report("the asks that wait cannot be read", error);
  });
  return { [Symbol.dispose]: () => socket.close() };
}

function report(failure: string, cause: unknown): void {
  const { message, hint } = asSbxError(cause, "the request");
  note(`sbx: ${failure}: ${[message, hint].filter(Boolean).join("; ")}`);
}

function questionOf({ ask_id, event_type, subject, rule_id, reason }: AskView): string {
  return plain(`${ask_id}: ${event_type} ${subject} (${[rule_id, reason].filter(Boolean).join(": ")})`);
}

/** The first question and the number of the others, in one line; its beginning is enough to answer it. */
function lineOf(asks: AskView[]): string | undefined {
  const [first] = asks;
  if (!first) return undefined;
  const { ask_id, subject, rule_id } = first;
  const more = asks.length > 1 ? ` (+${asks.length - 1})` : "";
  return plain(`sbx allow|deny ${ask_id}${more}: ${subject}${rule_id ? ` (rule ${rule_id})` : ""}`);
}

async function answerHere(client: Client, ask: AskView): Promise<void> {
  const { ask_id, covers, digest } = ask;
  if (!Deno.stdin.isTerminal()) {
    return note(`sbx asks ${questionOf(ask)}: sbx allow ${ask_id}, or sbx deny ${ask_id}`);
  }
  note(`sbx asks ${questionOf(ask)}`);
  const question = `  allow? y = once, s = for the session${covers ? ` (${plain(covers)})` : ""}, n = no [n]`;
  const answer = readAnswer(question)?.trim().toLowerCase();
  const json: AskResolve = answer === "s" && covers
    ? { decision: "allow", scope: "session", digest }
    : { decision: answer === "y" || answer === "s" ? "allow" : "deny", scope: "once", digest };
  await client.json("POST", `/asks/${encodeURIComponent(ask_id)}/resolve`, { json });
}

/**
 * Reads a line, without input typed before its question could be read, such as a second answer to the last
 * question.
 */
function readAnswer(question: string): string | null {
  for (;;) {
    const shownAt = performance.now();
    const line = prompt(question);
    if (line === null || performance.now() - shownAt >= READ_MS) return line;
    note("  ignored: it was typed before the question could be read");
  }
}

function write(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(text));
}
