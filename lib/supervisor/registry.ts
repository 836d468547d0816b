import { VM_NAME } from "../api/vm.ts";
import { SbxError } from "../error/mod.ts";
import type { Home } from "../home/mod.ts";
import { ask } from "../ipc/mod.ts";
import { readRecord, readState, sessionPaths, writeState } from "../session/mod.ts";
import { isAlive, type Vm } from "./vm.ts";

/** Every VM of one home, by id, as found on disk when the service starts. */
export class Registry {
  #home: Home;
  #vms = new Map<string, Vm>();

  constructor(home: Home) {
    this.#home = home;
  }

  /** Finds the VMs of earlier runs: those whose process still answers go on; the others are what their process left. */
  async load(): Promise<void> {
    await Deno.mkdir(this.#home.sessionsDir, { recursive: true, mode: 0o700 });
    for await (const { name, isDirectory } of Deno.readDir(this.#home.sessionsDir)) {
      if (!isDirectory) continue;
      const vm = await this.#find(name).catch(() => undefined);
      if (vm) this.add(vm);
    }
  }

  all(): Vm[] {
    return [...this.#vms.values()].sort((a, b) => a.record.created_at.localeCompare(b.record.created_at));
  }

  add(vm: Vm): void {
    this.#vms.set(vm.record.id, vm);
  }

  remove(vm: Vm): void {
    this.#vms.delete(vm.record.id);
  }

  /** @throws {SbxError} `vm.not_found` */
  get(idOrName: string): Vm {
    const vm = this.#vms.get(idOrName) ?? this.all().find(({ record }) => record.name === idOrName);
    if (vm) return vm;
    const what = VM_NAME.test(idOrName)
      ? `no VM is called "${idOrName}"`
      : "that is not the name or id of a VM";
    throw new SbxError("vm.not_found", what, { hint: "sbx list shows those that exist" });
  }

  /** The first of `vm-1`, `vm-2`, … that is free. */
  freeName(): string {
    for (let n = 1;; n++) {
      const name = `vm-${n}`;
      if (!this.#isTaken(name)) return name;
    }
  }

  /** @throws {SbxError} `vm.name_taken` */
  requireName(name: string): void {
    if (!this.#isTaken(name)) return;
    throw new SbxError("vm.name_taken", `a VM called "${name}" exists already`, {
      hint: "choose another name, or sbx delete it first",
    });
  }

  /** @throws {SbxError} `vm.limit` when as many VMs run as may */
  requireRoom(most: number): void {
    const running = this.all().filter(({ state }) => isAlive(state)).length;
    if (running < most) return;
    throw new SbxError("vm.limit", `${running} VMs run already, and no more may at once`, {
      hint: "sbx list shows them; sbx delete ends one",
    });
  }

  #isTaken(name: string): boolean {
    return this.all().some(({ record }) => record.name === name);
  }

  async #find(id: string): Promise<Vm> {
    const paths = sessionPaths(this.#home, id);
    const record = await readRecord(paths);
    const left = await readState(paths) ??
      { state: "Defunct" as const, boot_stages: [], pid: 0, last_error: "it never booted" };
    const told = await ask(paths.socket, { t: "Info" }).catch(() => undefined);
    if (told?.t === "Info") return { record, paths, state: told.info };
    return { record, paths, state: await settle(paths, left) };
  }
}

/** What is true of a VM whose process is gone: what it left behind is removed, and it did not end well if it had not said so. */
export async function settle(paths: Vm["paths"], left: Vm["state"]): Promise<Vm["state"]> {
  await Deno.remove(paths.socket).catch(() => {});
  await Deno.remove(paths.sockets, { recursive: true }).catch(() => {});
  if (left.state === "Stopped" || left.state === "Defunct") return left;
  const state = {
    ...left,
    state: "Defunct" as const,
    last_error: `its process (${left.pid}) ended without a word`,
  };
  await writeState(paths, state).catch(() => {});
  return state;
}
