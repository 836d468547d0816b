import { VM_NAME } from "../api/vm.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { ask } from "../ipc/mod.ts";
import type { SessionEntry } from "../ledger/sessions.ts";
import { log } from "../base/log/mod.ts";
import { readRecord, readState, sessionPaths, writeState } from "../session/mod.ts";
import { sealRecord } from "./seal.ts";
import { damagedVm } from "./damaged.ts";
import { SESSION_ID } from "./known.ts";
import { isAlive, type Vm } from "./vm.ts";

/** Every VM of one home, by id, as found on disk when the service starts. */
export class Registry {
  #home: Home;
  #vms = new Map<string, Vm>();

  constructor(home: Home) {
    this.#home = home;
  }

  /**
   * Finds the VMs of earlier runs: those whose process still answers go on; the others are what their process left. One
   * whose files are damaged is there too, and says so.
   *
   * @param known what the index of sessions says of one
   */
  async load(known: (id: string) => Promise<SessionEntry | undefined>): Promise<void> {
    await Deno.mkdir(this.#home.sessionsDir, { recursive: true, mode: 0o700 });
    for await (const { name, isDirectory } of Deno.readDir(this.#home.sessionsDir)) {
      if (isDirectory && SESSION_ID.test(name)) this.add(await this.#find(name, known));
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

  async #find(id: string, known: (id: string) => Promise<SessionEntry | undefined>): Promise<Vm> {
    const paths = sessionPaths(this.#home, id);
    const told = await ask(paths.socket, { t: "Info" }).catch(() => undefined);
    const info = told?.t === "Info" ? told.info : undefined;
    const record = await readRecord(paths).catch(() => undefined);
    if (record?.id !== id) {
      const vm = damagedVm(this.#home, id, info, await known(id));
      log(`VM "${vm.record.name}": ${paths.record} is damaged or gone`);
      if (!info) await settle(paths, vm.state);
      return vm;
    }
    return { record, paths, state: info ?? await settle(paths, await this.#left(record, paths)) };
  }

  /** What a VM's process left behind. */
  async #left({ name }: Vm["record"], paths: Vm["paths"]): Promise<Vm["state"]> {
    const defunct = { state: "Defunct" as const, boot_stages: [], pid: 0 };
    try {
      return await readState(paths) ?? { ...defunct, last_error: "it never booted" };
    } catch {
      const last_error = `${paths.state} is damaged: how it ended is not known`;
      log(`VM "${name}": ${last_error}`);
      return { ...defunct, last_error };
    }
  }
}

/** What is true of a VM whose process is gone: what it left behind is removed, and it did not end well if it had not said so. */
export async function settle(paths: Vm["paths"], left: Vm["state"]): Promise<Vm["state"]> {
  await Deno.remove(paths.socket).catch(() => {});
  await Deno.remove(paths.sockets, { recursive: true }).catch(() => {});
  await sealRecord(paths, left.pid);
  if (left.state === "Stopped" || left.state === "Defunct") return left;
  const state = {
    ...left,
    state: "Defunct" as const,
    last_error: `its process (${left.pid}) ended without a word`,
  };
  await writeState(paths, state).catch(() => {});
  return state;
}
