/** Several agents on one task, each in a VM of its own from one moment. */
import type { ForkResult, Job } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { waitUntilRunning } from "../vm/new_vm.ts";
import type { AgentVm } from "./agent_start.ts";

/** `ms` between looks whether agents have ended. */
const LOOK_MS = 1000;

/**
 * Makes the VMs of a race: the first one is prepared, and the others are forked from it, or prepared in the
 * same way where this host cannot fork a running VM.
 *
 * @param names the first one's name, and the others'
 * @param prepare makes a VM of a name, ready for its agent
 */
export async function makeRacers(
  client: Client,
  names: readonly string[],
  prepare: (name: string) => Promise<AgentVm>,
): Promise<AgentVm[]> {
  const first = await prepare(names[0]);
  const racers = [first];
  for (const name of names.slice(1)) {
    racers.push(await forkOf(client, first, name) ?? await prepare(name));
  }
  return racers;
}

/** @returns undefined: this host cannot fork running VMs */
async function forkOf(client: Client, first: AgentVm, name: string): Promise<AgentVm | undefined> {
  try {
    const { vms: [vm] } = await client.json<ForkResult>("POST", `/vms/${segment(first.id)}/fork`, {
      json: { name, count: 1 },
    });
    await waitUntilRunning(client, vm);
    return { id: vm.id, name, place: first.place };
  } catch (error) {
    if (error instanceof SbxError && error.code === "vm.not_supported") return undefined;
    throw error;
  }
}

/**
 * Waits until the agents of a race have ended.
 *
 * @returns their exit codes, by VM
 */
export async function awaitRacers(
  client: Client,
  racers: readonly { vm: AgentVm; job: Job }[],
): Promise<Map<string, number>> {
  const codes = new Map<string, number>();
  while (codes.size < racers.length) {
    for (const { vm, job } of racers) {
      if (codes.has(vm.name)) continue;
      const { state, exit_code } = await client.json<Job>(
        "GET",
        `/vms/${segment(vm.id)}/jobs/${segment(job.id)}`,
      );
      if (state !== "Ended") continue;
      codes.set(vm.name, exit_code ?? 1);
      note(`${vm.name}: ended with ${exit_code ?? "an error"} (${codes.size} of ${racers.length})`);
    }
    if (codes.size < racers.length) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return codes;
}
