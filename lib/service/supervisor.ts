import type { CreateRequest, VmAction, VmInfo, VmSummary } from "../api/vm.ts";
import { type Assets, resolveAssets, verifyAssets } from "../asset/mod.ts";
import type { CorpStore } from "../corp/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { ask, IpcCall, type MachineInfo } from "../ipc/mod.ts";
import { currentArch } from "../profile/mod.ts";
import { sessionPaths, writeContract, writeRecord, writeState } from "../session/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import { type AcceleratorChoice, chooseAccelerator, findTools, type Hypervisor, Qemu } from "../vm/mod.ts";
import { type Asked, readAsked } from "./asked.ts";
import { type BootSources, makeBoot, maxRunning, requireUnlocked } from "./boot.ts";
import { Detections } from "./detections.ts";
import { FindingExport } from "./export.ts";
import { furnish } from "./furnish.ts";
import { Governance } from "./governance.ts";
import { withoutSecrets } from "./guest_secrets.ts";
import { type Notice, Notices } from "./notice.ts";
import { startProcess } from "./process.ts";
import { Registry, settle } from "./registry.ts";
import { Sessions } from "./sessions.ts";
import { infoOf, isAlive, isLeftBehind, requireAction, summaryOf, type Vm } from "./vm.ts";

/** The life of every VM of one home. Each runs in a process of its own, which outlives this one. */
export class Supervisor {
  readonly hypervisor: Hypervisor = new Qemu();
  #home: Home;
  #settings: SettingsStore;
  #sources: BootSources;
  #registry: Registry;
  #notices = new Notices();
  /** the rules of VMs that run, and what waits for a person in them */
  readonly governance: Governance;
  /** detections of no profile and not corp's */
  readonly detections: Detections;
  /** findings on their way out */
  readonly exports: FindingExport;
  /** every session that there was */
  readonly sessions: Sessions;
  #accelerator: Promise<AcceleratorChoice> | undefined;

  constructor(home: Home, settings: SettingsStore, corp: CorpStore) {
    this.#home = home;
    this.#settings = settings;
    this.#registry = new Registry(home);
    this.sessions = new Sessions(home);
    this.detections = new Detections(home);
    this.#sources = { home, settings, corp, detections: this.detections };
    this.exports = new FindingExport(home, settings, corp);
    this.governance = new Governance(home, corp, this.#registry);
  }

  async load(): Promise<void> {
    await this.#registry.load((id) => this.sessions.get(id).catch(() => undefined));
    for (const vm of this.#alive()) this.#watch(vm);
    // What corp changed while no service ran holds from now on.
    await this.governance.refreshCorp();
    this.exports.begin().catch(() => {});
  }

  /** Sends to the collecting server what VMs that have ended could not. */
  async collectRest(): Promise<void> {
    await this.sessions.collect(new Set(this.#alive().map(({ record }) => record.id)));
  }

  /** @returns a function that stops the listening */
  listen(listener: (notice: Notice) => void): () => void {
    return this.#notices.listen(listener);
  }

  /** Tells every listener. */
  tell(notice: Notice): void {
    this.#notices.tell(notice);
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

  /**
   * Which accelerator machines get, found out once.
   *
   * @param assets to find it out with; those that are installed, unless others are given
   */
  accelerator(assets?: Assets): Promise<AcceleratorChoice> {
    this.#accelerator ??= this.#chooseAccelerator(assets);
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
    const id = crypto.randomUUID();
    const wanted = await this.#asked(request, source);
    const asked = { ...wanted, env: await withoutSecrets(this.#home, id, wanted.env) };
    const profileId = request.profile_id ?? source?.record.profile_id ?? "code";
    const boot = await makeBoot(this.#sources, profileId, asked);
    requireUnlocked(this.#settings, request);
    // From here to the registry nothing waits: two requests at once cannot both get the name or the last place.
    const name = request.name ?? this.#registry.freeName();
    this.#registry.requireName(name);
    this.#registry.requireRoom(maxRunning(this.#settings));
    const vm: Vm = {
      record: {
        id,
        name,
        created_at: new Date().toISOString(),
        persistent: request.persistent ?? false,
        scratch_gb: options.scratch ? source?.record.scratch_gb ?? boot.scratchGb : 0,
        ...boot.record,
      },
      paths: sessionPaths(this.#home, id),
      state: { state: "Booting", boot_stages: [], pid: 0 },
    };
    this.#registry.add(vm);
    this.sessions.put(vm.record);
    try {
      await furnish(vm, asked, boot.contract, source);
      await this.#launch(vm, boot.assets);
    } catch (error) {
      await this.#erase(vm);
      throw error;
    }
    return vm;
  }

  /** Boots a VM that has ended, with its profile and the settings as they are by now. */
  async start(vm: Vm): Promise<void> {
    this.#require(vm, "start");
    await this.#exclusive(vm, "start", async () => {
      const asked = await readAsked(vm.paths, vm.record);
      const boot = await makeBoot(this.#sources, vm.record.profile_id, asked);
      vm.record = { ...vm.record, ...boot.record };
      vm.problem = undefined;
      await Promise.all([writeRecord(vm.paths, vm.record), writeContract(vm.paths, boot.contract)]);
      // Others may have started meanwhile; from here to its new state nothing waits.
      this.#registry.requireRoom(maxRunning(this.#settings));
      await this.#launch(vm, boot.assets);
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
    const vms = this.#registry.all().filter((vm) => all || isLeftBehind(vm));
    await Promise.all(vms.map((vm) => this.delete(vm)));
    return vms.map(({ record }) => record.name);
  }

  /** Waits until a VM that was just made is ready. @throws {SbxError} what its boot failed of */
  async booted(vm: Vm): Promise<void> {
    await vm.booting;
  }

  /** Waits for a boot that is under way. @throws {SbxError} `vm.wrong_state` when programs cannot be run afterwards */
  async ready(vm: Vm): Promise<void> {
    if (vm.state.state === "Booting") await vm.booting;
    this.#require(vm, "exec");
  }

  /** What a request asks for, on top of what its source had asked for. */
  async #asked({ cpus, ram_mb, env }: CreateRequest, source: Vm | undefined): Promise<Asked> {
    const before = source && await readAsked(source.paths, source.record);
    return {
      cpus: cpus ?? before?.cpus,
      ram_mb: ram_mb ?? before?.ram_mb,
      env: { ...before?.env, ...env },
    };
  }

  async #chooseAccelerator(assets?: Assets): Promise<AcceleratorChoice> {
    const { kernel, initrd } = assets ?? await resolveAssets(this.#home, currentArch());
    return await chooseAccelerator({ kernel: kernel.path, initrd: initrd.path }, this.#home.runDir);
  }

  /** Starts the VM's process, checks its assets meanwhile, and orders the boot; returns once that is ordered. */
  async #launch(vm: Vm, assets: Assets): Promise<void> {
    vm.state = { state: "Booting", boot_stages: [], pid: 0 };
    const process = await startProcess(this.#home, vm);
    try {
      const [choice] = await Promise.all([
        this.accelerator(assets),
        process.listening,
        verifyAssets(assets),
      ]);
      vm.state = { ...vm.state, accelerator: choice.accelerator };
      vm.booting = this.#boot(vm, choice);
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

  async #boot(vm: Vm, { accelerator }: AcceleratorChoice): Promise<void> {
    this.#watch(vm);
    const reply = await ask(vm.paths.socket, { t: "Boot", accelerator });
    if (reply.t === "Info") this.#update(vm, reply.info);
  }

  /** Follows what a VM's process tells until that process is gone. */
  async #watch(vm: Vm): Promise<void> {
    try {
      using call = await IpcCall.open(vm.paths.socket, { t: "Watch" });
      for (let reply = await call.next(); reply !== null; reply = await call.next()) {
        if (reply.t === "Info") this.#update(vm, reply.info);
        if (reply.t === "Notice" && reply.type === "finding") this.exports.kick(vm.record.id);
        if (reply.t === "Notice") this.tell({ type: reply.type, payload: reply.payload } as Notice);
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
    this.sessions.put(vm.record, new Date().toISOString());
  }

  #update(vm: Vm, state: MachineInfo): void {
    const changed = vm.state.state !== state.state;
    vm.state = state;
    if (!changed) return;
    this.#tell(vm);
    this.sessions.put(vm.record, isAlive(state) ? undefined : new Date().toISOString());
  }

  #tell(vm: Vm): void {
    this.tell({ type: "vm-state-changed", payload: this.summary(vm) });
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

  #alive(): Vm[] {
    return this.#registry.all().filter(({ state }) => isAlive(state));
  }

  #require(vm: Vm, action: VmAction): void {
    requireAction(vm, action, this.hypervisor.features);
  }

  #source(from: string): Vm {
    const source = this.find(from);
    this.#require(source, "fork");
    return source;
  }
}
