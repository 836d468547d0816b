/** The VMs in which an agent has worked on a folder before, and the way back into one. */
import type { JobList, VmListed } from "../../../lib/client/api/mod.ts";
import type { Arguments } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type Agent, PROMPT } from "../../../lib/config/profile/mod.ts";
import { waitUntilRunning } from "../vm/new_vm.ts";
import { ALL_PULLED, formatTime, formatUntaken } from "../vm/work_text.ts";
import { VmGuest } from "../files/repository.ts";
import type { AgentProfile, AgentVm } from "./agent_start.ts";

/** Longest check for a conversation, in `s`. */
const CHECK_SECONDS = 60;

/** The agent that works in a VM. VMs of an older sbx say only their profile. */
export const agentOf = ({ agent, profile_id }: Pick<VmListed, "agent" | "profile_id">): string =>
  agent ?? profile_id;

/**
 * VMs in which this agent, or its twin for local models, works on a folder, the
 * one that was active last first.
 *
 * @param folder absolute path, its links resolved
 */
export async function vmsOnFolder(
  client: Client,
  { id, agent }: AgentProfile,
  folder: string,
): Promise<VmListed[]> {
  const ids = [id, agent.local];
  const { vms } = await client.json<{ vms: VmListed[] }>("GET", "/vms/list");
  return vms.filter((vm) => vm.folder?.dir === folder && ids.includes(agentOf(vm)))
    .toSorted((a, b) => (b.active_at ?? "").localeCompare(a.active_at ?? ""));
}

/**
 * Chooses between a VM that works on the folder and a new one: by the options, else by a question. Without a
 * terminal it is a new one, and a line names the others.
 *
 * @returns undefined: a new one
 * @throws {SbxError} `agent.none_before`: no VM to continue in; `vm.exists`: a new one would get its name
 */
export function chooseBefore(vms: VmListed[], folder: string, args: Arguments): VmListed | undefined {
  const name = args.text("name");
  const named = name === undefined ? vms : vms.filter((vm) => vm.name === name);
  if (args.has("continue")) {
    if (named.length > 0) return named[0];
    throw new SbxError(
      "agent.none_before",
      name === undefined
        ? `no agent has worked on ${folder} yet`
        : `no agent works on ${folder} in "${name}"`,
      {
        hint: vms.length > 0 ? `it works in ${vms.map((vm) => vm.name).join(", ")}` : "leave out --continue",
      },
    );
  }
  if (args.has("new") || vms.length === 0) return undefined;
  if (name !== undefined) {
    if (named.length === 0) return undefined;
    throw new SbxError("vm.exists", `"${name}" works on ${folder} already`, {
      hint: `--continue --name ${name} goes on there, another --name makes a new VM`,
    });
  }
  const [last, ...others] = vms;
  const lines = vms.map((vm) => `  ${formatBefore(vm)}`).join("\n");
  if (!Deno.stdin.isTerminal()) {
    note(`sbx: ${folder} has been worked on before; --continue goes on there:\n${lines}`);
    return undefined;
  }
  note(`${folder} has been worked on before:\n${lines}`);
  const where = others.length > 0 ? `in ${last.name}` : "there";
  const answer = prompt(`Continue ${where}, or in a new VM? [C/n]`)?.trim() ?? "";
  return /^n/i.test(answer) ? undefined : last;
}

/**
 * Options of a new VM, with the way to change them in one that is there; undefined: no command changes it.
 */
const OF_NEW_VM: Readonly<Record<string, ((name: string) => string) | undefined>> = {
  cpus: (name) => `sbx stop ${name}, then sbx set ${name} --cpus N`,
  ram: (name) => `sbx stop ${name}, then sbx set ${name} --ram SIZE`,
  disk: (name) => `sbx stop ${name}, then sbx set ${name} --disk SIZE`,
  credential: (name) => `sbx set ${name} --credential PROVIDER=LABEL`,
  env: undefined,
  live: undefined,
};

/** @throws {SbxError} `vm.exists`: an option that only a new VM can have */
export function requireFitFor({ name }: Pick<VmListed, "name">, args: Arguments): void {
  const option = Object.keys(OF_NEW_VM).find((each) => args.has(each));
  if (option === undefined) return;
  const change = OF_NEW_VM[option]?.(name);
  throw new SbxError("vm.exists", `--${option} is for a new VM, and "${name}" is there already`, {
    hint: `--new makes another one${change === undefined ? "" : `; ${change} changes this one`}`,
  });
}

/** A VM on a folder, in one line. */
function formatBefore({ name, status, active_at, folder }: VmListed): string {
  const untaken = formatUntaken(folder);
  const parts = [
    status,
    active_at && `active ${formatTime(active_at)}`,
    untaken && untaken !== ALL_PULLED ? `${untaken} not pulled` : untaken,
  ];
  return `${name} (${parts.filter(Boolean).join(", ")})`;
}

/** Brings a VM to where a program can start. @throws {SbxError} `vm.wrong_state`, `vm.boot_failed` */
export async function wake(client: Client, { id, name, status, folder }: VmListed): Promise<AgentVm> {
  const action =
    { Stopped: "start", Defunct: "start", Suspended: "resume", Paused: "resume" }[status as string];
  if (action) {
    note(`${name}: ${action === "start" ? "starting" : "resuming"}`);
    const woken = await client.json<VmListed>("POST", `/vms/${segment(id)}/${action}`);
    await waitUntilRunning(client, woken);
  }
  return { id, name, place: folder?.place ?? "/root" };
}

/** The agent's job that runs in a VM. */
export async function runningJob(client: Client, name: string, agent: Agent) {
  const { jobs } = await client.json<JobList>("GET", `/vms/${segment(name)}/jobs`);
  return jobs.findLast(({ state, argv }) => state !== "Ended" && isAgent(agent, argv));
}

/** True for the VM's agent among its jobs. */
function isAgent({ command, headless, continue: again }: Agent, argv: readonly string[]): boolean {
  return [command, headless, ...again ? [again.command, again.headless] : []].some((words) =>
    words.every((word, at) => word === PROMPT || word === argv[at]) && argv.length >= words.length
  );
}

/** The agent with the words by which it takes up its last conversation, if it has one in the VM. */
export async function continued(client: Client, name: string, agent: Agent): Promise<Agent> {
  const { continue: again } = agent;
  if (!again) return agent;
  // Unquoted: the shell looks for files of the pattern, which the profile's schema has checked.
  const script = 'for file in $1; do [ -e "$file" ] && exit 0; done; exit 1';
  const { code } = await new VmGuest(client, name).run(
    ["sh", "-c", script, "sh", again.conversations],
    CHECK_SECONDS,
  );
  return code === 0 ? { ...agent, command: again.command, headless: again.headless } : agent;
}
