import type { CreateRequest, VmAction, VmInfo, VmSummary } from "../api/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import type { MachineInfo } from "../ipc/mod.ts";
import { sessionPaths, type VmParent, writeContract, writeRecord } from "../session/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import { findTools, type Hypervisor } from "../vm/mod.ts";
import { type BootSources, DEFAULT_PROFILE, makeBoot, maxRunning, requireUnlocked } from "./boot.ts";
import { withoutSecrets } from "./captured.ts";
import { companionContract, Companions } from "./companions.ts";
import { Launcher, type LauncherOptions } from "./launch.ts";
import type { Notices } from "./notice.ts";
import type { Registry } from "./registry.ts";
import { readRequest, type VmRequest } from "./request.ts";
import type { Sessions } from "./sessions.ts";
import { settle } from "./settle.ts";
import { forgetMemory, keptMachine } from "./suspension.ts";
import { infoOf, isAlive, isLeftBehind, requireAction, summaryOf, type Vm } from "./vm.ts";
import { makeVmFiles } from "./vm_files.ts";
import { VmProcess } from "./vm_process.ts";

/** Parts of the service that the life of a VM involves. */
export interface SupervisorOptions
  extends BootSources, Pick<LauncherOptions, "accelerators" | "templates" | "onNotice"> {
  hypervisor: Hypervisor;
  registry: Registry;
  sessions: Sessions;
  notices: Notices;
}

/** The life of every VM of one home. Each runs in a process of its own, which outlives this one. */
export class Supervisor {
  readonly hypervisor: Hypervisor;
  readonly #home: Home;
  readonly #settings: SettingsStore;
  readonly #options: SupervisorOptions;
  readonly #registry: Registry;
  readonly #launcher: Launcher;
  readonly #companions: Companions;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.hypervisor = options.hypervisor;
    this.#home = options.home;
    this.#settings = options.settings;
    this.#registry = options.registry;
    this.#launcher = new Launcher({ ...options, onState: (vm, state) => this.#update(vm, state) });
    this.#companions = new Companions({
      registry: options.registry,
      create: (request, parent) => this.create(request, { scratch: false, parent }),
      remove: (vm) => this.delete(vm),
    });
  }

  /** Finds the VMs of earlier runs, and follows those that still run. */
  async load(): Promise<void> {
    const { sessions } = this.#options;
    await this.#registry.load((id) => sessions.get(id).catch(() => undefined));
    for (const vm of this.#registry.alive()) this.#launcher.watch(vm);
    await this.#companions.removeOrphans();
  }

  /** @param all also the VMs of MCP servers, which belong to others */
  list(all = false): VmSummary[] {
    return this.#registry.all().filter(({ record }) => all || !record.parent).map((vm) => this.summary(vm));
  }

  /** @throws {SbxError} `vm.not_found` */
  find(idOrName: string): Vm {
    return this.#registry.get(idOrName);
  }

  summary(vm: Vm): VmSummary {
    return summaryOf(vm, this.hypervisor.features);
  }

  info(vm: Vm): VmInfo {
    return infoOf(vm, this.hypervisor);
  }

  /**
   * Makes a VM and starts its boot; `vm.booting` settles with the boot. A request or assets that are wrong are refused
   * before any file of the VM exists.
   */
  async create(
    request: CreateRequest,
    options: { scratch: boolean; parent?: VmParent } = { scratch: true },
  ): Promise<Vm> {
    findTools();
    const source = request.from === undefined ? undefined : this.#findSource(request.from);
    const id = crypto.randomUUID();
    const vmRequest = await this.#completeRequest(id, request, source);
    const profileId = request.profile_id ?? source?.record.profile_id ?? DEFAULT_PROFILE;
    // A program of somebody else: it gets the refs that its definition names, and no others.
    const boot = await makeBoot(this.#options, profileId, vmRequest, { refs: options.parent === undefined });
    // Nobody asks for the resources of an MCP server: corp's locks replace its own.
    if (!options.parent) requireUnlocked(this.#settings, request);
    // Nothing is awaited from here to the registry: two requests at once cannot both get the name or the last place.
    const name = request.name ?? this.#registry.freeName();
    this.#registry.requireName(name);
    this.#registry.requireRoom(maxRunning(this.#settings));
    const paths = sessionPaths(this.#home, id);
    const vm: Vm = {
      record: {
        id,
        name,
        created_at: new Date().toISOString(),
        persistent: request.persistent ?? false,
        scratch_gb: options.scratch ? source?.record.scratch_gb ?? boot.scratchGb : 0,
        ...(options.parent && { parent: options.parent }),
        ...boot.record,
      },
      paths,
      process: new VmProcess(paths.socket),
      state: { state: "Booting", boot_stages: [], pid: 0 },
    };
    this.#registry.add(vm);
    this.#options.sessions.put(vm.record);
    try {
      const contract = options.parent ? companionContract(boot.contract) : boot.contract;
      await makeVmFiles(vm, vmRequest, contract, source);
      await this.#launcher.launch(vm, boot.assets);
    } catch (error) {
      await this.#erase(vm);
      throw error;
    }
    this.#tell(vm);
    return vm;
  }

  /** Boots a VM that has ended, with its profile and the settings as they are now. */
  async start(vm: Vm): Promise<void> {
    this.#require(vm, "start");
    await this.#exclusive(vm, "start", async () => {
      const request = await readRequest(vm.paths, vm.record);
      const boot = await makeBoot(this.#options, vm.record.profile_id, request);
      vm.record = { ...vm.record, ...boot.record, ...await keptMachine(vm) };
      vm.problem = undefined;
      await Promise.all([writeRecord(vm.paths, vm.record), writeContract(vm.paths, boot.contract)]);
      // Other VMs may have started meanwhile; nothing is awaited from here to the new state.
      this.#registry.requireRoom(maxRunning(this.#settings));
      await this.#launcher.launch(vm, boot.assets);
      this.#tell(vm);
    });
  }

  /** Stops a VM; one that is not persistent is removed. */
  async stop(vm: Vm): Promise<void> {
    this.#require(vm, "stop");
    await this.#exclusive(
      vm,
      "stop",
      () => this.#end(vm, false),
    );
    if (!vm.record.persistent) await this.#erase(vm);
  }

  async pause(vm: Vm): Promise<void> {
    this.#require(vm, "pause");
    await this.#exclusive(vm, "pause", async () => {
      this.#update(vm, (await vm.process.call({ t: "Pause" })).info);
    });
  }

  async resume(vm: Vm): Promise<void> {
    this.#require(vm, "resume");
    if (vm.state.state === "Suspended") {
      await this.start(vm);
      return await vm.booting;
    }
    await this.#exclusive(vm, "resume", async () => {
      this.#update(vm, (await vm.process.call({ t: "Resume" })).info);
    });
  }

  /** Writes a VM's memory to disk and ends its machine; {@linkcode start} goes on with it. */
  async suspend(vm: Vm): Promise<void> {
    this.#require(vm, "suspend");
    await this.#exclusive(vm, "suspend", async () => {
      this.#update(vm, (await vm.process.call({ t: "Suspend" })).info);
    });
  }

  /** Makes a VM persistent. */
  async save(vm: Vm, name?: string): Promise<void> {
    this.#require(vm, "save");
    if (name !== undefined && name !== vm.record.name) this.#registry.requireName(name);
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

  /** Removes the VMs that were left behind; with `all`, every VM. @returns their names */
  async purge(all: boolean): Promise<string[]> {
    const vms = this.#registry.all().filter((vm) => !vm.record.parent && (all || isLeftBehind(vm)));
    await Promise.all(vms.map((vm) => this.delete(vm)));
    return vms.map(({ record }) => record.name);
  }

  /** Waits until a new VM is ready. @throws {SbxError} the failure of its boot */
  async booted(vm: Vm): Promise<void> {
    await vm.booting;
  }

  /** Waits for a boot that is under way. @throws {SbxError} `vm.wrong_state` when the VM cannot run programs afterwards */
  async ready(vm: Vm): Promise<void> {
    if (vm.state.state === "Booting") await vm.booting;
    this.#require(vm, "exec");
  }

  /** The values of a request, over those of the source's request; secrets are replaced by refs. */
  async #completeRequest(
    id: string,
    { cpus, ram_mb, env }: CreateRequest,
    source: Vm | undefined,
  ): Promise<VmRequest> {
    const base = source && await readRequest(source.paths, source.record);
    return {
      cpus: cpus ?? base?.cpus,
      ram_mb: ram_mb ?? base?.ram_mb,
      env: await withoutSecrets(this.#home, id, { ...base?.env, ...env }),
    };
  }

  async #end(vm: Vm, force: boolean): Promise<void> {
    if (vm.state.state === "Suspended") return this.#update(vm, await forgetMemory(vm));
    await this.#companions.removeOf(vm);
    const reply = await vm.process.call({ t: "Stop", force }).catch(() => undefined);
    this.#update(vm, reply?.info ?? await settle(vm.paths, vm.state));
  }

  async #erase(vm: Vm): Promise<void> {
    await settle(vm.paths, vm.state);
    await Deno.remove(vm.paths.dir, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    this.#registry.remove(vm);
    this.#options.sessions.put(vm.record, new Date().toISOString());
  }

  #update(vm: Vm, state: MachineInfo): void {
    const isNew = vm.state.state !== state.state;
    vm.state = state;
    this.#companions.follow(vm);
    if (!isNew) return;
    this.#tell(vm);
    this.#options.sessions.put(vm.record, isAlive(state) ? undefined : new Date().toISOString());
  }

  #tell(vm: Vm): void {
    this.#options.notices.tell({ type: "vm-state-changed", payload: this.summary(vm) });
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

  #require(vm: Vm, action: VmAction): void {
    requireAction(vm, action, this.hypervisor);
  }

  #findSource(idOrName: string): Vm {
    const source = this.find(idOrName);
    this.#require(source, "fork");
    return source;
  }
}
