/** VMs whose memory is on disk, while no machine of theirs runs. */
import type { MachineInfo } from "../ipc/mod.ts";
import { discardSuspended, isSuspended, type VmRecord, writeState } from "../session/mod.ts";
import type { Vm } from "./vm.ts";

/** What needs a VM that runs, in words. */
export type Asker = "a program" | "a terminal" | "a port" | "an MCP tool";

/** Whether a suspended VM comes back by itself: nobody ordered that it is suspended. */
export function comesBack({ state }: Pick<Vm, "state">): boolean {
  return state.state === "Suspended" && state.suspended_by === "idle";
}

/** What a new start must not change of a suspended VM: memory fits only the machine that it was written from. */
export async function keptMachine(
  { record, paths }: Pick<Vm, "record" | "paths">,
): Promise<Partial<VmRecord>> {
  if (!await isSuspended(paths)) return {};
  const { cpus, ram_mb, assets } = record;
  return { cpus, ram_mb, assets };
}

/** Gives up a VM's memory, as if its machine had been switched off. @returns its state then */
export async function forgetMemory({ paths, state }: Vm): Promise<MachineInfo> {
  await discardSuspended(paths);
  const stopped: MachineInfo = { ...state, state: "Stopped", last_error: undefined };
  await writeState(paths, stopped);
  return stopped;
}
