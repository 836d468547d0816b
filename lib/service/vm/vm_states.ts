import { SbxError } from "../../base/error/mod.ts";
import { removeFolder } from "../../base/home/mod.ts";
import type { MachineInfo } from "../../session/ipc/mod.ts";
import type { Features } from "../../machine/vm/mod.ts";
import type { Notices } from "../notice.ts";
import type { Bin } from "./bin.ts";
import type { Registry } from "./registry.ts";
import type { Sessions } from "../record/sessions.ts";
import { settle } from "./vm_process.ts";
import { isAlive, summaryOf, type Vm } from "./vm.ts";

export interface VmStatesOptions {
  registry: Registry;
  bin: Bin;
  sessions: Sessions;
  notices: Notices;
  features: Features;
  /** a VM reported a state, which may be unchanged */
  onState(vm: Vm): void;
}

/** The states of VMs in the service's memory: the one place that changes and publishes them. */
export class VmStates {
  readonly #options: VmStatesOptions;

  constructor(options: VmStatesOptions) {
    this.#options = options;
  }

  /** Takes the state that a VM's process reported, or has left at its end. */
  update(vm: Vm, state: MachineInfo): void {
    const isNew = vm.state.state !== state.state;
    const isHeld = JSON.stringify(vm.state.response) !== JSON.stringify(state.response);
    vm.state = state;
    this.#options.onState(vm);
    if (isNew || isHeld) this.publish(vm);
    if (!isNew) return;
    this.#options.sessions.put(vm.record, isAlive(state) ? undefined : new Date().toISOString());
  }

  /** Publishes a VM's summary. */
  publish(vm: Vm): void {
    const { notices, features } = this.#options;
    notices.publish({ type: "vm-state-changed", payload: summaryOf(vm, features) });
  }

  /** Removes a VM without a process; its ledger stays. @param keeps its files go to the bin for a day */
  async erase(vm: Vm, keeps = false): Promise<void> {
    await settle(vm.paths, vm.state);
    if (keeps) await this.#options.bin.put({ record: vm.record, dir: vm.paths.dir });
    else await removeFolder(vm.paths.dir);
    this.#options.registry.remove(vm);
    this.#options.sessions.put(vm.record, new Date().toISOString());
    const { id, name } = vm.record;
    this.#options.notices.publish({ type: "vm-deleted", payload: { id, name } });
  }
}

/**
 * Changes the life of a VM; a second change at the same time is refused.
 *
 * @param action names this change in that refusal
 * @throws {SbxError} `vm.busy`
 */
export async function exclusive<T>(vm: Vm, action: string, work: () => Promise<T>): Promise<T> {
  requireIdle(vm);
  vm.busy = action;
  try {
    // A ledger has one writer.
    await vm.still?.close();
    return await work();
  } finally {
    vm.busy = undefined;
  }
}

/** @throws {SbxError} `vm.busy`: a change of its life is under way */
export function requireIdle({ busy, record }: Vm): void {
  if (!busy) return;
  throw new SbxError("vm.busy", `"${record.name}" is busy with ${busy}`, { hint: "try again in a moment" });
}
