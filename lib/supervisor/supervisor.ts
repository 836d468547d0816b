import { dirname } from "node:path";
import type { CreateRequest, VmInfo, VmSummary } from "../api/vm.ts";
import { resolveAssets, verifyAssets } from "../asset/mod.ts";
import { SbxError } from "../error/mod.ts";
import type { Home } from "../home/mod.ts";
import { ask, IpcCall, type MachineInfo } from "../ipc/mod.ts";
import { currentArch, loadProfile, requireCompatible } from "../profile/mod.ts";
import { spawnDetached } from "../program/mod.ts";
import { type AcceleratorChoice, chooseAccelerator, findTools, type Hypervisor, Qemu } from "../vm/mod.ts";
import { sessionPaths, type VmRecord, writeRecord, writeState } from "../session/mod.ts";
import { Registry, settle } from "./registry.ts";
import { copySparse, makeScratch } from "./scratch.ts";
import { actionsOf, infoOf, summaryOf, type Vm } from "./vm.ts";

/** VMs at once unless settings say otherwise (contracts.md §2). */
const MAX_RUNNING = 10;
const ARCH = currentArch();
/** How long a new sbx-process may take until it answers. */
const PROCESS_DEADLINE_MS = 20_000;
const PROCESS_POLL_MS = 5;

/** What the service tells its `/events` listeners. */
export type Notice = { type: "vm-state-changed"; payload: VmSummary } | {
  type: "security-event";
  payload: Record<string, unknown>;
};

/** The life of every VM of one home. Each runs in a process of its own, which outlives this one. */
export class Supervisor {
  readonly hypervisor: Hypervisor = new Qemu();
  #home: Home;
  #registry: Registry;
  #listeners = new Set<(notice: Notice) => void>();
  #accelerator: Promise<AcceleratorChoice> | undefined;

  constructor(home: Home) {
    this.#home = home;
    this.#registry = new Registry(home);
  }

  async load(): Promise<void> {
    await this.#registry.load();
    for (const vm of this.#registry.all()) if (isAlive(vm.state)) this.#watch(vm);
  }

  /** @returns a function that stops the listening */
  listen(listener: (notice: Notice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  list(): VmSummary[] {
    return this.#registry.all().map((vm) => summaryOf(vm, this.hypervisor.features));
  }

  find(id: string): Vm {
    return this.#registry.get(id);
  }

  summary(vm: Vm): VmSummary {
    return summaryOf(vm, this.hypervisor.features);
  }

  info(vm: Vm): VmInfo {
    return infoOf(vm, this.hypervisor);
  }

  /** Which accelerator machines get, found out once. */
  accelerator(): Promise<AcceleratorChoice> {
    this.#accelerator ??= resolveAssets(this.#home, ARCH).then(({ kernel, initrd }) =>
      chooseAccelerator({ kernel: kernel.path, initrd: initrd.path }, this.#home.runDir)
    );
    this.#accelerator.catch(() => this.#accelerator = undefined);
    return this.#accelerator;
  }

  /**
   * Makes a VM and starts its boot. Everything that can be wrong with the request or the assets is found before
   * anything of it exists; `vm.booting` settles with the boot.
   */
  async create(request: CreateRequest, options: { scratch: boolean } = { scratch: true }): Promise<Vm> {
    findTools();
    const source = request.from === undefined ? undefined : this.#source(request.from);
    const profile = await loadProfile(this.#home, request.profile_id ?? source?.record.profile_id ?? "code");
    requireCompatible(profile);
    const assets = await resolveAssets(this.#home, ARCH);
    // From here to the registry nothing waits: two requests at once cannot both get the name or the last place.
    const name = request.name ?? freeName(this.#registry.all());
    this.#requireName(name);
    this.#requireRoom();
    const record: VmRecord = {
      id: crypto.randomUUID(),
      name,
      profile_id: profile.id,
      profile_revision: profile.revision,
      created_at: new Date().toISOString(),
      persistent: request.persistent ?? false,
      cpus: request.cpus ?? profile.vm.cpu_count,
      ram_mb: request.ram_mb ?? profile.vm.ram_gb * 1024,
      scratch_gb: options.scratch ? source?.record.scratch_gb ?? profile.vm.scratch_disk_size_gb : 0,
      env: request.env ?? {},
      files: [],
      assets: {
        version: assets.version,
        kernel: assets.kernel.path,
        initrd: assets.initrd.path,
        rootfs: assets.rootfs.path,
      },
    };
    const vm: Vm = {
      record,
      paths: sessionPaths(this.#home, record.id),
      state: { state: "Booting", boot_stages: [], pid: 0 },
    };
    this.#registry.add(vm);
    try {
      await this.#furnish(vm, source);
      await this.#launch(vm);
    } catch (error) {
      await this.#erase(vm);
      throw error;
    }
    return vm;
  }

  async start(vm: Vm): Promise<void> {
    this.#require(vm, "start");
    this.#requireRoom();
    await this.#exclusive(vm, "start", async () => {
      const assets = await resolveAssets(this.#home, ARCH);
      vm.record.assets = {
        version: assets.version,
        kernel: assets.kernel.path,
        initrd: assets.initrd.path,
        rootfs: assets.rootfs.path,
      };
      await writeRecord(vm.paths, vm.record);
      await this.#launch(vm);
    });
  }

  /** Stops a VM; one that is not persistent is gone afterwards. */
  async stop(vm: Vm): Promise<void> {
    this.#require(vm, "stop");
    await this.#exclusive(vm, "stop", () => this.#end(vm, false));
    if (!vm.record.persistent) await this.#erase(vm);
  }

  async pause(vm: Vm): Promise<void> {
    this.#require(vm, "pause");
    await this.#exclusive(vm, "pause", () => this.#order(vm, { t: "Pause" }));
  }

  async resume(vm: Vm): Promise<void> {
    this.#require(vm, "resume");
    await this.#exclusive(vm, "resume", () => this.#order(vm, { t: "Resume" }));
  }

  /** Keeps a VM that would have been removed when it stops. */
  async save(vm: Vm, name?: string): Promise<void> {
    this.#require(vm, "save");
    if (name !== undefined && name !== vm.record.name) this.#requireName(name);
    const record = { ...vm.record, persistent: true, name: name ?? vm.record.name };
    await writeRecord(vm.paths, record);
    vm.record = record;
    this.#tell(vm);
  }

  async delete(vm: Vm): Promise<void> {
    await this.#exclusive(vm, "delete", async () => {
      if (isAlive(vm.state)) await this.#end(vm, true);
      await this.#erase(vm);
    });
  }

  /** Removes the VMs that are not kept; with `all`, every VM. @returns their names */
  async purge(all: boolean): Promise<string[]> {
    const vms = this.#registry.all().filter((vm) => all || !vm.record.persistent);
    await Promise.all(vms.map((vm) => this.delete(vm)));
    return vms.map(({ record }) => record.name);
  }

  /** Waits until a VM that boots is ready or has failed. @throws {SbxError} what it failed of */
  async ready(vm: Vm): Promise<void> {
    await vm.booting;
  }

  /** Creates the folders and the disk of a new VM. */
  async #furnish(vm: Vm, source: Vm | undefined): Promise<void> {
    const { paths, record } = vm;
    for (const dir of [paths.dir, paths.logs, paths.snapshots, dirname(paths.ledger)]) {
      await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
    }
    if (source) await copySparse(source.paths.workspace, paths.workspace);
    else await Deno.mkdir(paths.workspace, { mode: 0o755 });
    if (record.scratch_gb > 0) {
      if (source && source.record.scratch_gb > 0) await copySparse(source.paths.scratch, paths.scratch);
      else await makeScratch(paths.scratch, record.scratch_gb);
    }
    await writeRecord(paths, record);
  }

  /** Starts the VM's process, checks its assets meanwhile, and orders the boot; returns once that is ordered. */
  async #launch(vm: Vm): Promise<void> {
    vm.state = { state: "Booting", boot_stages: [], pid: 0 };
    await Deno.mkdir(this.#home.runDir + "/instances", { recursive: true, mode: 0o700 });
    const process = spawnDetached("process", [vm.record.id], `${vm.paths.logs}/process.log`);
    try {
      const [choice, call] = await Promise.all([
        this.accelerator(),
        this.#connect(vm, process),
        resolveAssets(this.#home, ARCH).then(verifyAssets),
      ]);
      vm.state = { ...vm.state, accelerator: choice.accelerator };
      vm.booting = this.#boot(vm, call, choice);
      vm.booting.catch(() => {});
    } catch (error) {
      process.kill();
      vm.state = {
        state: "Defunct",
        boot_stages: [],
        pid: 0,
        last_error: error instanceof Error ? error.message : String(error),
      };
      await writeState(vm.paths, await settle(vm.paths, vm.state)).catch(() => {});
      throw error;
    }
    this.#tell(vm);
  }

  async #boot(vm: Vm, socket: string, { accelerator }: AcceleratorChoice): Promise<void> {
    this.#watch(vm);
    const reply = await ask(socket, { t: "Boot", accelerator });
    if (reply.t === "Info") this.#update(vm, reply.info);
  }

  /** Waits until the new process listens. @returns its socket */
  async #connect(vm: Vm, process: { exited: Promise<unknown> }): Promise<string> {
    let gone = false;
    process.exited.then(() => gone = true);
    for (const deadline = performance.now() + PROCESS_DEADLINE_MS; performance.now() < deadline && !gone;) {
      if (await Deno.lstat(vm.paths.socket).then(() => true, () => false)) return vm.paths.socket;
      await new Promise((resolve) => setTimeout(resolve, PROCESS_POLL_MS));
    }
    throw new SbxError("vm.boot_failed", "the VM's process did not start", {
      hint: `${vm.paths.logs}/process.log says why`,
    });
  }

  /** Follows what a VM's process tells until that process is gone. */
  async #watch(vm: Vm): Promise<void> {
    try {
      using call = await IpcCall.open(vm.paths.socket, { t: "Watch" });
      for (let reply = await call.next(); reply !== null; reply = await call.next()) {
        if (reply.t === "Info") this.#update(vm, reply.info);
        if (reply.t === "Event") this.#notify({ type: "security-event", payload: reply.event });
      }
    } catch {
      // The process went away: what it left behind says how.
    }
    if (isAlive(vm.state)) this.#update(vm, await settle(vm.paths, vm.state));
  }

  async #end(vm: Vm, force: boolean): Promise<void> {
    const reply = await ask(vm.paths.socket, { t: "Stop", force }).catch(() => undefined);
    this.#update(vm, reply?.t === "Info" ? reply.info : await settle(vm.paths, vm.state));
  }

  async #order(vm: Vm, call: { t: "Pause" } | { t: "Resume" }): Promise<void> {
    const reply = await ask(vm.paths.socket, call);
    if (reply.t === "Info") this.#update(vm, reply.info);
  }

  async #erase(vm: Vm): Promise<void> {
    await settle(vm.paths, vm.state);
    await Deno.remove(vm.paths.dir, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    this.#registry.remove(vm);
  }

  #update(vm: Vm, state: MachineInfo): void {
    const changed = vm.state.state !== state.state;
    vm.state = state;
    if (changed) this.#tell(vm);
  }

  #tell(vm: Vm): void {
    this.#notify({ type: "vm-state-changed", payload: this.summary(vm) });
  }

  #notify(notice: Notice): void {
    for (const listener of this.#listeners) listener(notice);
  }

  async #exclusive<T>(vm: Vm, action: string, work: () => Promise<T>): Promise<T> {
    if (vm.busy) {
      throw new SbxError("vm.busy", `"${vm.record.name}" is busy with ${vm.busy}`, {
        hint: "try again in a moment",
      });
    }
    vm.busy = action;
    try {
      return await work();
    } finally {
      vm.busy = undefined;
    }
  }

  #require(vm: Vm, action: VmSummary["available_actions"][number]): void {
    const legal = actionsOf(vm, this.hypervisor.features);
    if (legal.includes(action)) return;
    throw new SbxError(
      "vm.wrong_state",
      `"${vm.record.name}" is ${vm.state.state}: ${action} is not possible now`,
      {
        hint: `possible now: ${legal.join(", ")}`,
      },
    );
  }

  #source(from: string): Vm {
    const source = this.find(from);
    this.#require(source, "fork");
    return source;
  }

  #requireName(name: string): void {
    if (this.#registry.all().some(({ record }) => record.name === name)) {
      throw new SbxError("vm.name_taken", `a VM called "${name}" exists already`, {
        hint: "choose another name, or sbx delete it first",
      });
    }
  }

  #requireRoom(): void {
    const running = this.#registry.all().filter((vm) => isAlive(vm.state)).length;
    if (running >= MAX_RUNNING) {
      throw new SbxError("vm.limit", `${running} VMs run already, and no more may at once`, {
        hint: "sbx list shows them; sbx delete ends one",
      });
    }
  }
}

function isAlive({ state }: MachineInfo): boolean {
  return state === "Booting" || state === "Running" || state === "Paused";
}

function freeName(vms: Vm[]): string {
  for (let n = 1;; n++) {
    const name = `vm-${n}`;
    if (!vms.some(({ record }) => record.name === name)) return name;
  }
}
