import { resolve } from "node:path";
import type { Job, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type AgentOrigin, listAgents, originOf } from "../../../lib/config/agent/mod.ts";
import { type Agent, PROMPT } from "../../../lib/config/profile/mod.ts";
import { sourcesOf } from "../../../lib/repo/mod.ts";
import { findHistory } from "../../../lib/setup/mod.ts";
import {
  agentOf,
  chooseBefore,
  continued,
  requireFitFor,
  runningJob,
  vmsOnFolder,
  wake,
} from "./agent_again.ts";
import { AGENT_FILE_COMMANDS } from "./agent_add.ts";
import { chooseHistory, HISTORY, putConversations } from "./agent_history.ts";
import { chooseSetup, requireSetupFor, SETUP, SETUP_OPTIONS } from "./agent_setup.ts";
import { awaitRacers, makeRacers } from "./agent_race.ts";
import { compare, COMPARED_MAX, formatChoice, formatCompared, TEST_SECONDS } from "./compare.ts";
import { chooseModel } from "./agent_model.ts";
import { formatReport, reportOf } from "./agent_report.ts";
import {
  agentIn,
  type AgentProfile,
  agentProfile,
  agentProfiles,
  type AgentVm,
  createVm,
  freeName,
  requireKey,
} from "./agent_start.ts";
import { credentialsOf } from "../vm/new_vm.ts";
import { Banner } from "../vm/attach.ts";
import { connect } from "../connect.ts";
import { table, usageError } from "../output.ts";
import { parseEnv, SBX_FAILED } from "../vm/program.ts";
import { BRING_OPTIONS, keepState } from "../files/repository.ts";
import { agentAndFolder, PROJECT_OPTION } from "../files/project_file.ts";
import { attachJob } from "../vm/jobs.ts";
import { requireImage } from "../vm/profile_image.ts";
import { DISK_OPTION, requireSizes, SIZE_OPTIONS } from "../vm/new_vm.ts";
import { showAsks } from "../vm/shown_asks.ts";

/** Size of a new VM; its profile is the agent's. */
const SIZE = SIZE_OPTIONS.filter(({ name }) => name === "cpus" || name === "ram");

const RUN: Command = {
  name: "agent run",
  usage: "[AGENT] [DIR] [-p PROMPT] [OPTIONS] [-- ARGS…]",
  summary: "start a coding agent on a folder in a VM of its own; also: sbx agent AGENT [DIR]",
  notes: [
    "DIR (default .) is brought in as with sbx create --from-dir; sbx pull takes the work back as a branch.",
    "Without AGENT it is the one that the .sbx.toml of DIR asks for, such as in: sbx agent .",
    "Where the agent has worked on DIR before, it asks whether to go on in that VM: --continue, --new.",
    "Requests that the agent's profile does not allow wait for an answer. The exit code is the agent's.",
  ],
  options: [
    {
      name: "prompt",
      short: "p",
      value: "TEXT",
      about: "work on this without a terminal; - reads it from standard input",
    },
    { name: "detach", short: "d", about: "start it as a job; sbx agent attach connects to it" },
    {
      name: "model",
      short: "m",
      value: "MODEL",
      about:
        "model that the agent works with; SERVICE/MODEL, such as ollama/qwen3: one of this host's services",
    },
    {
      name: "continue",
      short: "c",
      about: "go on in the VM where it worked on DIR last, with its conversation",
    },
    { name: "new", about: "a new VM, without a question" },
    {
      name: "race",
      value: "N",
      about: `let N agents work on the task, each in a VM of its own, and compare them; 2 to ${COMPARED_MAX}`,
    },
    { name: "test", value: "COMMAND", about: "with --race: run this in each VM at the end" },
    { name: "name", value: "NAME", about: "name of the VM; default AGENT-FOLDER" },
    {
      name: "profile",
      value: "PROFILE",
      about: "a profile of yours with this agent, such as a copy of its own; as sbx agent PROFILE",
      completes: "agents",
    },
    ...SIZE,
    DISK_OPTION,
    { name: "env", short: "e", value: "K=V", many: true, about: "set an environment variable of the VM" },
    {
      name: "credential",
      value: "LABEL",
      about: "use the key of the agent's provider that has this label; also PROVIDER=LABEL (repeatable)",
      many: true,
    },
    { name: "build", about: "build the agent's image without a question if it is missing" },
    ...BRING_OPTIONS,
    ...SETUP_OPTIONS,
    PROJECT_OPTION,
    { name: "live", about: "give the VM the folder itself, read-write, with masks (docs/guides/live.md)" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 2 },
  completes: ["agents", "folders"],
  program: true,
  failure: SBX_FAILED,
  examples: [
    "sbx agent run claude",
    'sbx agent run codex ~/project -p "fix the failing test"',
    'sbx agent run codex ~/project --continue -p "and the other one"',
    'sbx agent claude . --race 3 -p "fix the failing test" --test "npm test"',
    "sbx agent run opencode . --model ollama/qwen3-coder",
    "sbx agent run gemini . -- --debug",
    "sbx agent claude . --credential work",
    "sbx agent claude . --with-setup",
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
      summary: "connect to the agent of a VM; one that has ended starts again, with its conversation",
      options: [],
      words: { min: 1, max: 1 },
      completes: ["vms"],
      failure: SBX_FAILED,
      examples: ["sbx agent attach claude-project"],
      run: attachTo,
    },
    SETUP,
    HISTORY,
    ...AGENT_FILE_COMMANDS,
  ],
};

async function run(args: Arguments): Promise<number> {
  const { id, dir } = await agentAndFolder(RUN, args);
  // Before any other error: a hint with a name that does not exist is of no use.
  const asked = await agentIn(await agentProfile(id), args.text("profile"));
  const racing = raceOf(args);
  const task = await readTask(args.text("prompt"));
  const isDetached = args.has("detach");
  if (task === undefined && !isDetached && !Deno.stdin.isTerminal()) {
    throw usageError(RUN, "without a terminal an agent needs a task", `sbx agent ${id} -p "…"`);
  }
  if (args.has("live") && args.has("to")) throw usageError(RUN, "--to cannot be combined with --live");
  if (args.has("continue") && args.has("new")) {
    throw usageError(RUN, "--continue and --new exclude each other");
  }
  requireSetupFor(RUN, args);
  const env = parseEnv(RUN, args.list("env"));
  requireSizes(args);
  const chosen = await chooseModel(asked, args.text("model"));
  const { profile } = chosen;
  const client = await connect();
  // Before the image, which takes minutes to build.
  const { credentials } = credentialsOf(args, profile.agent.provider);
  const key = await requireKey(client, profile, credentials);
  const folder = args.has("live")
    ? await Deno.realPath(dir).catch(() => resolve(dir))
    : (await sourcesOf(dir))[0].dir;
  const chooseOwn = () => chooseSetup(client, asked, { folder, dir, key }, args);
  if (racing !== undefined) {
    const setup = await chooseOwn();
    await requireImage(profile, args.has("build"));
    const what = { ...chosen, dir, key, env, credentials, setup };
    return await race(
      client,
      racing,
      { ...what, task: task! },
      [...chosen.words, ...args.program ?? []],
      args,
    );
  }
  const vms = await vmsOnFolder(client, asked, folder);
  const kept = await findHistory(home(), profile.id, folder);
  const isOver = vms.length === 0 && kept !== undefined && args.has("continue");
  const before = isOver ? undefined : chooseBefore(vms, folder, args);
  const more = [...chosen.words, ...args.program ?? []];
  let [vm, job]: [AgentVm?, Job?] = [];
  if (before) {
    requireFitFor(before, args);
    if (args.has("with-setup")) note(`sbx: ${before.name} keeps the setup that it has; --new takes yours`);
    vm = await wake(client, before);
    const agent = await agentProfile(agentOf(before));
    job = await goOn(client, agent, vm, { task, more });
  } else {
    const history = chooseHistory(kept, args);
    const setup = await chooseOwn();
    await requireImage(profile, args.has("build"));
    const { agent } = profile;
    const complete = history && ((vm: AgentVm) => putConversations(client, vm, { kept: history, agent }));
    vm = await createVm(client, { ...chosen, dir, key, env, credentials, setup, complete }, args);
    job = await start(client, history ? await continued(client, vm.name, agent) : agent, vm, { task, more });
  }
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

/** The task of `--prompt`, whose `-` keeps it out of the list of processes. */
async function readTask(text: string | undefined): Promise<string | undefined> {
  if (text !== "-") return text;
  const task = (await new Response(Deno.stdin.readable).text()).trim();
  if (task === "") throw usageError(RUN, "standard input has no task", "sbx agent claude -p - < TASK");
  return task;
}

/**
 * Number of agents in a race; undefined without one.
 * @throws {UsageError} options that it does not go with
 */
function raceOf(args: Arguments): number | undefined {
  const racing = args.number("race", { min: 2, max: COMPARED_MAX });
  if (racing === undefined) {
    if (args.has("test")) throw usageError(RUN, "--test goes with --race");
    return undefined;
  }
  if (!args.has("prompt")) throw usageError(RUN, "--race needs a task: -p TEXT");
  for (const other of ["continue", "live", "detach"]) {
    if (args.has(other)) throw usageError(RUN, `--race cannot be combined with --${other}`);
  }
  return racing;
}

/**
 * Lets several agents work on one task, and shows their work side by side.
 *
 * @returns 0 if one of them ended well
 */
async function race(
  client: Client,
  racing: number,
  { task, ...what }: Parameters<typeof createVm>[1] & { task: string },
  more: string[],
  args: Arguments,
): Promise<number> {
  const base = args.text("name") ?? await freeName(client, what.profile.id, what.dir);
  const names = Array.from({ length: racing }, (_, at) => `${base}-${at + 1}`);
  const vms = await makeRacers(client, names, (name) => createVm(client, { ...what, name }, args));
  const asks = vms.map(({ id }) => showAsks(client, id));
  try {
    const racers = await Promise.all(
      vms.map(async (vm) => ({ vm, job: await start(client, what.profile.agent, vm, { task, more }) })),
    );
    note(`${names.join(", ")} work on it; they go on without this command: sbx compare ${names.join(" ")}`);
    const codes = await awaitRacers(client, racers);
    const line = args.text("test");
    const compared = await compare(
      client,
      names,
      line === undefined ? undefined : { line, seconds: TEST_SECONDS },
    );
    if (args.has("json")) {
      await printJson({ vms: compared.map((each) => ({ ...each, exit_code: codes.get(each.vm) })) });
    } else {
      await print(formatCompared(compared));
      note(formatChoice(compared));
    }
    return Math.min(...codes.values());
  } finally {
    for (const each of asks) each[Symbol.dispose]();
  }
}

/**
 * Connects to the agent that runs in a VM, or starts it there with its last conversation.
 *
 * @throws {SbxError} `agent.busy`: it runs, and takes no second task
 */
export async function goOn(
  client: Client,
  { agent }: AgentProfile,
  vm: AgentVm,
  what: { task?: string; more: string[] },
): Promise<Job> {
  const running = await runningJob(client, vm.name, agent);
  if (running && what.task === undefined) return running;
  if (running) {
    throw new SbxError("agent.busy", `the agent still works in "${vm.name}"`, {
      hint: `sbx agent attach ${vm.name} connects to it, --new starts another VM`,
    });
  }
  return await start(client, await continued(client, vm.name, agent), vm, what);
}

/** Starts the agent as a job: with a task without a terminal. */
async function start(
  client: Client,
  agent: Agent,
  { name, place }: AgentVm,
  { task, more }: { task?: string; more: string[] },
): Promise<Job> {
  const words = task === undefined
    ? agent.command
    : agent.headless.map((word) => word === PROMPT ? task : word);
  await keepState(client, name, "before a task of the agent");
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
  const agents = await Promise.all((await listAgents(home())).map(async ({ profile, version: image }) => {
    const { id, name, packages, source, agent: { provider, default_models, instructions, hosts } } = profile;
    const origin = source === "user" ? await originOf(home(), id) : undefined;
    return {
      id,
      name,
      provider,
      source,
      packages: packages.npm,
      default_models,
      instructions,
      hosts,
      origin,
      image,
    };
  }));
  if (args.has("json")) await printJson({ agents });
  else {
    const rows = agents.map((
      { id, name, provider = "", source, origin, packages, image },
    ) => [
      id,
      name,
      provider,
      packages.at(-1) ?? "",
      origin ? originText(origin) : source === "builtin" ? "sbx" : "you",
      image ?? "built at its first start",
    ]);
    await print(table(["AGENT", "NAME", "KEY OF", "PACKAGE", "FROM", "IMAGE"], rows));
  }
  return 0;
}

/** Where an added agent comes from, in words. */
function originText({ source, signed_by }: AgentOrigin): string {
  return signed_by.length > 0 ? `${source}, signed by ${signed_by[0].slice(0, 12)}` : `${source}, unsigned`;
}

async function attachTo(args: Arguments): Promise<number> {
  const [name] = args.words;
  const client = await connect();
  const info = await client.json<VmInfo>("GET", `/vms/${segment(name)}/info`);
  const profile = await agentInVm(info);
  const running = await runningJob(client, name, profile.agent);
  if (running) return await follow(client, info, running);
  if (!Deno.stdin.isTerminal()) {
    throw new SbxError("agent.not_found", `no agent runs in "${name}", and without a terminal none starts`, {
      hint: `sbx jobs ${name} shows what has run`,
    });
  }
  const vm = await wake(client, info);
  return await follow(client, vm, await goOn(client, profile, vm, { more: [] }));
}

/** The agent of a VM. @throws {SbxError} `agent.not_found` */
export async function agentInVm(info: Pick<VmInfo, "name" | "agent" | "profile_id">): Promise<AgentProfile> {
  const profile = (await agentProfiles()).find((profile) => profile.id === agentOf(info));
  if (profile) return profile;
  const { name } = info;
  throw new SbxError("agent.not_found", `"${name}" is the VM of no agent`, {
    hint: `sbx jobs ${name} shows what has run, sbx shell ${name} opens a terminal`,
  });
}
