import { relative, resolve } from "node:path";
import { type Backend, type FileAccess, relay } from "../../../lib/acp/mod.ts";
import type { VmListed } from "../../../lib/client/api/mod.ts";
import type { Arguments, Command } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import { sourcesOf } from "../../../lib/repo/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { BRING_OPTIONS } from "../files/repository.ts";
import { agentAndFolder, PROJECT_OPTION } from "../files/project_file.ts";
import { credentialsOf, DISK_OPTION, requireSizes, SIZE_OPTIONS } from "../vm/new_vm.ts";
import { parseEnv, SBX_FAILED } from "../vm/program.ts";
import { requireImage } from "../vm/profile_image.ts";
import { type Acp, serve } from "./acp_server.ts";
import { agentOf, vmsOnFolder, wake } from "./agent_again.ts";
import { chooseModel } from "./agent_model.ts";
import { chooseSetup, requireSetupFor, SETUP_OPTIONS } from "./agent_setup.ts";
import { type AgentProfile, agentProfile, type AgentVm, createVm, requireKey } from "./agent_start.ts";

const ACCESS: readonly FileAccess[] = ["none", "read", "write"];

export const command: Command = {
  name: "acp",
  usage: "[AGENT] [DIR] [OPTIONS]",
  summary: "let an editor use an agent in a VM, by Agent Client Protocol",
  notes: [
    "An editor starts it and speaks on its standard input and output: docs/guides/editors.md.",
    "It goes on in the VM where the agent worked on DIR (default .) last, or makes one as sbx agent does.",
    "Without AGENT it is the one that the .sbx.toml of DIR asks for; approve that in a terminal first.",
    "Asks of sbx appear in the editor. sbx pull takes the work back as a branch.",
  ],
  options: [
    { name: "new", about: "a new VM, also where the agent has worked on DIR before" },
    { name: "name", value: "NAME", about: "name of the VM; default AGENT-FOLDER" },
    {
      name: "files",
      value: "ACCESS",
      about:
        "files of DIR that the agent reaches by the editor: none (default), read (with changes not saved yet), or write (each a question)",
      choices: ACCESS,
    },
    {
      name: "model",
      short: "m",
      value: "MODEL",
      about: "SERVICE/MODEL, such as ollama/qwen3: one of this host's services",
    },
    ...SIZE_OPTIONS.filter(({ name }) => name === "cpus" || name === "ram"),
    DISK_OPTION,
    { name: "env", short: "e", value: "K=V", many: true, about: "set an environment variable of a new VM" },
    {
      name: "credential",
      value: "LABEL",
      about: "use the key of the agent's provider that has this label; also PROVIDER=LABEL (repeatable)",
      many: true,
    },
    { name: "build", about: "build the agent's image if it is missing; the editor waits for minutes" },
    ...BRING_OPTIONS,
    ...SETUP_OPTIONS,
    PROJECT_OPTION,
    { name: "live", about: "give the VM the folder itself, read-write, with masks (docs/guides/live.md)" },
  ],
  words: { min: 0, max: 2 },
  completes: ["agents", "folders"],
  failure: SBX_FAILED,
  examples: ["sbx acp claude", "sbx acp opencode ~/project --files read", "sbx acp claude --with-setup"],
  async run(args) {
    if (Deno.stdin.isTerminal()) {
      throw usageError(
        command,
        "an editor starts sbx acp, and this is a terminal",
        `sbx agent ${args.words[0] ?? "."}`,
      );
    }
    const { id, dir } = await agentAndFolder(command, args);
    const access = accessOf(args);
    requireSetupFor(command, args);
    // Errors from here on are the editor's: it shows them to the person, who does not see this program.
    const input = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        hasSpoken = true;
        controller.enqueue(bytes);
      },
    });
    let hasSpoken = false;
    await relay(
      { readable: Deno.stdin.readable.pipeThrough(input), writable: output() },
      { access, start: () => start(id, dir, args) },
    );
    if (hasSpoken) return 0;
    throw new SbxError("acp.ended", "no editor spoke: standard input ended before its first message", {
      hint: "an editor starts this command: docs/guides/editors.md",
    });
  },
};

function accessOf(args: Arguments): FileAccess {
  const access = (args.text("files") ?? "none") as FileAccess;
  if (access !== "none" && args.has("live")) {
    throw usageError(command, "--files is not for --live, which gives the VM the files themselves");
  }
  return access;
}

/** Makes or wakes the VM of a folder, and starts the agent's server there. */
async function start(id: string, dir: string, args: Arguments): Promise<Backend> {
  const asked = await agentProfile(id, "sbx acp");
  const { profile, ...chosen } = await chooseModel(asked, args.text("model"));
  if (chosen.words.length > 0) {
    throw new SbxError("agent.no_model", `sbx acp takes no --model "${args.text("model")}"`, {
      hint: "choose the agent's model in the editor",
    });
  }
  requireServer(profile);
  const env = parseEnv(command, args.list("env"));
  requireSizes(args);
  const client = await connect();
  const { credentials } = credentialsOf(args, profile.agent.provider);
  const key = await requireKey(client, profile, credentials);
  const given = await Deno.realPath(dir).catch(() => resolve(dir));
  const folder = args.has("live") ? given : (await sourcesOf(dir))[0].dir;
  const before = args.has("new") ? undefined : named(await vmsOnFolder(client, asked, folder), args);
  if (before) note(`${before.name}: going on`);
  if (before && args.has("with-setup")) {
    note(`sbx: ${before.name} keeps the setup that it has; --new takes yours`);
  }
  const vm = before ? await wake(client, before) : await make();
  const { agent, name } = before
    ? requireServer(await agentProfile(agentOf(before)))
    : requireServer(profile);
  const host = [folder, ...namesOf(folder, given, resolve(dir))];
  return await serve(client, { vm, agent: name, acp: agent.acp, folder: { host, guest: vm.place } });

  async function make(): Promise<AgentVm> {
    const setup = await chooseSetup(client, asked, { folder, dir, key, isEditor: true }, args);
    await requireImage(profile, args.has("build"));
    return await createVm(client, { ...chosen, profile, dir, key, env, credentials, setup }, args);
  }
}

/** The VM to go on in: the last one, or the one of the name that the person gave. */
function named(vms: VmListed[], args: Arguments): VmListed | undefined {
  const name = args.text("name");
  return vms.find((vm) => name === undefined || vm.name === name);
}

type AcpProfile = AgentProfile & { agent: { acp: Acp } };

/** @throws {SbxError} `acp.no_server`: the agent does not speak the protocol */
function requireServer(profile: AgentProfile): AcpProfile {
  if (profile.agent.acp) return profile as AcpProfile;
  throw new SbxError("acp.no_server", `${profile.name} has no server for editors in its profile`, {
    hint:
      `a copy of the profile may have one, docs/guides/editors.md; sbx agent ${profile.id} runs it in a terminal`,
  });
}

/** The folder by the name that the person and the editor use, where a link leads to it. */
function namesOf(folder: string, real: string, given: string): string[] {
  const below = relative(folder, real);
  const name = below === ""
    ? given
    : given.endsWith(`/${below}`)
    ? given.slice(0, -below.length - 1)
    : folder;
  return name === folder ? [] : [name];
}

/** Standard output as the end of a connection: the process closes it, not the connection. */
function output(): WritableStream<Uint8Array> {
  return new WritableStream({ write: (bytes) => writeAll(Deno.stdout, bytes as Uint8Array<ArrayBuffer>) });
}
