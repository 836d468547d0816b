import { currentArch } from "../../../lib/base/arch/mod.ts";
import type { Job, JobList, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type Agent, bootAssets, PROMPT } from "../../../lib/config/profile/mod.ts";
import { sourcesOf } from "../../../lib/repo/mod.ts";
import { chooseModel } from "./agent_model.ts";
import { formatReport, reportOf } from "./agent_report.ts";
import {
  type AgentProfile,
  agentProfile,
  agentProfiles,
  type AgentVm,
  createVm,
  requireKey,
} from "./agent_start.ts";
import { Banner } from "../vm/attach.ts";
import { connect } from "../connect.ts";
import { table, usageError } from "../output.ts";
import { SBX_FAILED } from "../vm/program.ts";
import { BRING_OPTIONS } from "../files/repository.ts";
import { attachJob } from "../vm/jobs.ts";
import { requireImage } from "../vm/profile_image.ts";
import { showAsks } from "../vm/shown_asks.ts";

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
    {
      name: "model",
      short: "m",
      value: "MODEL",
      about:
        "model that the agent works with; SERVICE/MODEL, such as ollama/qwen3: one of this host's services",
    },
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
    "sbx agent run opencode . --model ollama/qwen3-coder",
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
  const asked = await agentProfile(id);
  const task = args.text("prompt");
  const isDetached = args.has("detach");
  if (task === undefined && !isDetached && !Deno.stdin.isTerminal()) {
    throw usageError(RUN, "without a terminal an agent needs a task", `sbx agent ${id} -p "…"`);
  }
  if (args.has("live") && args.has("to")) throw usageError(RUN, "--to cannot be combined with --live");
  const chosen = await chooseModel(asked, args.text("model"));
  const { profile } = chosen;
  const client = await connect();
  // Before the image, which takes minutes to build.
  const ref = await requireKey(client, profile);
  if (!args.has("live")) await sourcesOf(dir);
  await requireImage(profile, args.has("build"));
  const vm = await createVm(client, { ...chosen, dir, ref }, args);
  const job = await start(client, profile, vm, { task, more: [...chosen.words, ...args.program ?? []] });
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
