/** Life of all VMs of one home: created, started, stopped, suspended, forked and deleted. */
import type {
  CreateRequest,
  ForkRequest,
  ImageConflicts,
  PurgeRequest,
  PurgeResult,
  QueueResult,
  SetRequest,
  VmAction,
  VmInfo,
  VmListed,
  VmSummary,
} from "../../client/api/mod.ts";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { sessionPaths, writeContract, writeRecord, writeState } from "../../session/mod.ts";
import type { AnsweredBy } from "../../policy/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { keepingEnvironments } from "../../release/environment/mod.ts";
import type { Hypervisor } from "../../machine/vm/mod.ts";
import { Admission } from "./admission.ts";
import type { Bin } from "./bin.ts";
import {
  type BootSources,
  makeBoot,
  maxRunning,
  readRequest,
  requireUnlocked,
  writeRequest,
} from "./boot.ts";
import { Companions } from "./mcp_companions.ts";
import { type Forked, Forks, removeUnfinishedForks } from "./forks.ts";
import { Launcher, type LauncherOptions } from "./launch.ts";
import { renewLive } from "./live_folder.ts";
import type { Notices } from "../notice.ts";
import type { Registry } from "./registry.ts";
import type { Sessions } from "../record/sessions.ts";
import { acceleratorOf, type Asker, comesBack, forgetMemory, keptMachine } from "./suspension.ts";
import { changeCredentials } from "./credential_change.ts";
import { growDisk } from "./disk.ts";
import { finishChange, imageConflicts, imageRecord, withImage } from "./image_change.ts";
import { removeLeftSpares } from "./vm_files.ts";
import { type PageOf, pageOfVms } from "./page.ts";
import { requireLanded } from "../run/work.ts";
import {
  infoOf,
  isAbandoned,
  isAlive,
  isLeftBehind,
  requireAction,
  summaryOf,
  type Vm,
  workOf,
} from "./vm.ts";
import { type MakeOptions, VmMaker } from "./creation.ts";
import { isForeign, settle, stopForeign } from "./vm_process.ts";
import { exclusive, VmStates } from "./vm_states.ts";

/** Parts of the service that the life of a VM involves. */
export interface SupervisorOptions
  extends
    BootSources,
    Pick<LauncherOptions, "accelerators" | "templates" | "secrets" | "witnesses" | "onNotice" | "onTurn"> {
  hypervisor: Hypervisor;
  registry: Registry;
  sessions: Sessions;
  notices: Notices;
  bin: Bin;
}

/**
 * Every change of a VM's life, from create to delete, for all VMs of one home. Each VM runs in a process of
 * its own, which outlives the service.
 */
export class Supervisor {
  readonly hypervisor: Hypervisor;
  readonly #settings: SettingsStore;
  readonly #options: SupervisorOptions;
  readonly #registry: Registry;
  readonly #states: VmStates;
  readonly #launcher: Launcher;
  readonly #admission: Admission;
  readonly #maker: VmMaker;
  readonly #forks: Forks;
  readonly #companions: Companions;
  /** of VMs; a new VM waits for them where the limit of running VMs is reached */
  readonly #removals = new Set<Promise<void>>();

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.hypervisor = options.hypervisor;
    this.#settings = options.settings;
    this.#registry = options.registry;
    this.#states = new VmStates({
      ...options,
      features: this.hypervisor.features,
      onState: (vm) => this.#companions.follow(vm),
    });
    this.#launcher = new Launcher({ ...options, onState: (vm, state) => this.#states.update(vm, state) });
    const admission = this.#admission = new Admission(this.#registry, this.#settings);
    const making = { ...options, launcher: this.#launcher, states: this.#states, admission };
    this.#maker = new VmMaker(making);
    this.#forks = new Forks(making);
    this.#companions = new Companions({
      registry: options.registry,
      create: (request, parent) => this.create(request, { scratch: false, parent }),
      remove: (vm) => this.delete(vm, { force: true, keeps: false }),
    });
  }

  /** Finds the VMs of earlier runs of the service, and watches the ones still running. */
  async load(): Promise<void> {
    const { home, sessions } = this.#options;
    await removeLeftSpares(home);
    await this.#registry.load((id) => sessions.get(id).catch(() => undefined));
    await Promise.all(this.#registry.all().map((vm) => this.#finishChange(vm)));
    for (const vm of this.#registry.alive()) this.#launcher.watch(vm);
    await this.#companions.removeOrphans();
    await this.#removeAbandoned();
    await removeUnfinishedForks(home);
  }

  async #finishChange(vm: Vm): Promise<void> {
    if (isAlive(vm.state) || vm.damaged) return;
    vm.record = await finishChange(this.#options.home, vm.paths, vm.record);
  }

  /**
   * Removes the temporary VMs that no command waits for; their records stay. The next start retries failures.
   */
  async #removeAbandoned(): Promise<void> {
    await Promise.all(
      this.#registry.all().filter(isAbandoned).map(async (vm) => {
        const { name, id } = vm.record;
        log.info(
          `removing "${name}": a temporary VM that ${
            vm.state.last_error ?? "was left by the last run of the service"
          }`,
        );
        await this.delete(vm, { force: true, keeps: false }).catch((error) => log.warn(`${id}:`, error));
      }),
    );
  }

  /** @param all also the VMs of MCP servers, which belong to other VMs */
  list(all = false): VmSummary[] {
    return this.#registry.all().filter(({ record }) => all || !record.parent).map((vm) => this.summary(vm));
  }

  /** As {@linkcode list}, with the folders that the VMs work on; a page of it, or all. */
  async listed(all = false, page: PageOf = {}): Promise<{ vms: VmListed[]; next_cursor?: string }> {
    const shown = this.#registry.all().filter(({ record }) => all || !record.parent);
    const { vms, next_cursor } = pageOfVms(shown, page);
    return {
      vms: await Promise.all(vms.map(async (vm) => ({ ...this.summary(vm), ...await workOf(vm) }))),
      next_cursor,
    };
  }

  /** The creates that wait for room. */
  queue(): QueueResult {
    return this.#admission.queue();
  }

  /** VMs with a process. */
  alive(): Vm[] {
    return this.#registry.alive();
  }

  /** @throws {SbxError} `vm.not_found` */
  find(idOrName: string): Vm {
    return this.#registry.get(idOrName);
  }

  /** Memory of the machine that is started ahead for the next VM, in `MiB`; `undefined`: there is none. */
  get spareRamMb(): number | undefined {
    return this.#launcher.spareRamMb;
  }

  /** Files that this machine boots from. */
  get spareAssets(): string[] {
    return this.#launcher.spareAssets;
  }

  summary(vm: Vm): VmSummary {
    return summaryOf(vm, this.hypervisor.features);
  }

  info(vm: Vm): VmInfo {
    return infoOf(vm, this.hypervisor);
  }

  /**
   * Makes a VM and starts its boot; `vm.booting` settles with the boot. An invalid request or asset is
   * refused before any file of the VM exists.
   */
  async create(
    request: CreateRequest,
    options: MakeOptions = { scratch: true },
  ): Promise<Vm> {
    // The VM of a `sbx run` that has just ended frees its place in a moment.
    if (!this.#registry.hasRoom(maxRunning(this.#settings))) await Promise.allSettled(this.#removals);
    return await this.#maker.make(request, options);
  }

  /** Boots a stopped VM, with its profile and the settings of now. */
  async start(vm: Vm): Promise<void> {
    this.#require(vm, "start");
    await exclusive(vm, "start", async () => {
      const request = await readRequest(vm.paths, vm.record);
      const named = { refs: true, vm: vm.record.id };
      const boot = await makeBoot(this.#options, vm.record.profile_id, request, named);
      const kept = await keptMachine(vm);
      if (kept.assets) await this.#options.standing.requireMachine(vm.record.name, kept.assets);
      // Checked before the VM changes.
      if (kept.assets) await acceleratorOf(vm, this.#options, boot.assets);
      const live = await renewLive(this.#options, vm);
      vm.record = { ...vm.record, ...boot.record, ...live, ...kept };
      vm.problem = undefined;
      await Promise.all([writeRecord(vm.paths, vm.record), writeContract(vm.paths, boot.contract)]);
      // Other VMs may have started meanwhile; nothing is awaited from here to the new state.
      this.#admission.require(vm.record.ram_mb);
      await this.#launcher.launch(vm, boot.assets);
      this.#compareImages(vm);
      this.#states.publish(vm);
    });
  }

  /** Stops a VM; a temporary one goes to the bin for a day. */
  async stop(vm: Vm): Promise<void> {
    this.#require(vm, "stop");
    await exclusive(vm, "stop", () => this.#end(vm, false));
    if (!vm.record.persistent) await this.#states.erase(vm, await this.#options.bin.takes(vm));
  }

  /**
   * Lifts the response to a finding, such as a pause or a cut network.
   *
   * @param liftStopped does it in the record of a VM without a process
   * @throws {SbxError} `response.none`, `response.corp`
   */
  async lift(vm: Vm, by: AnsweredBy, liftStopped: () => Promise<void>): Promise<void> {
    if (isAlive(vm.state)) {
      const lift = async () => this.#states.update(vm, (await vm.process.call({ t: "Lift", by })).info);
      return await exclusive(vm, "lift", lift);
    }
    // It checks for itself that the VM is not busy.
    await liftStopped();
    const { response: _, ...state } = vm.state;
    await writeState(vm.paths, state);
    this.#states.update(vm, state);
  }

  async pause(vm: Vm): Promise<void> {
    this.#require(vm, "pause");
    await exclusive(vm, "pause", async () => {
      this.#states.update(vm, (await vm.process.call({ t: "Pause" })).info);
    });
  }

  /** Resumes a VM; simultaneous callers share one resume. */
  async resume(vm: Vm): Promise<void> {
    if (vm.waking) return await vm.waking.done;
    this.#require(vm, "resume");
    if (vm.state.state === "Suspended") return await this.#wake(vm);
    await exclusive(vm, "resume", async () => {
      this.#states.update(vm, (await vm.process.call({ t: "Resume" })).info);
    });
  }

  /**
   * Writes a VM's memory to disk and ends its machine; {@linkcode start} resumes it.
   *
   * @param idleMs suspends it only if it has been unused for that long; its next use then resumes it
   */
  async suspend(vm: Vm, idleMs?: number): Promise<void> {
    this.#require(vm, "suspend");
    await exclusive(vm, "suspend", async () => {
      const over = Promise.withResolvers<void>();
      vm.suspending = over.promise;
      try {
        this.#states.update(vm, (await vm.process.call({ t: "Suspend", idle_ms: idleMs })).info);
      } finally {
        vm.suspending = undefined;
        over.resolve();
      }
    });
  }

  /** Copies a VM; see {@linkcode Forks.fork}. */
  async fork(vm: Vm, request: ForkRequest, options?: Pick<MakeOptions, "client" | "asked">): Promise<Forked> {
    return await this.#forks.fork(vm, request, options);
  }

  /** Makes a VM persistent. */
  async save(vm: Vm, name?: string): Promise<void> {
    this.#require(vm, "save");
    if (name !== undefined && name !== vm.record.name) this.#registry.requireName(name);
    const record = { ...vm.record, persistent: true, name: name ?? vm.record.name };
    await writeRecord(vm.paths, record);
    vm.record = record;
    this.#states.publish(vm);
  }

  /**
   * Changes the size or the image of a stopped VM, and the credentials of any VM. Its next start uses the new
   * processors and memory, unless corp has locked other values by then.
   *
   * @throws {SbxError} `settings.corp_locked`, `disk.shrinks`, `disk.full`, and the errors of
   * {@linkcode withImage}, {@linkcode changeCredentials} and {@linkcode makeBoot}
   */
  async set(vm: Vm, { credentials, ...change }: SetRequest): Promise<void> {
    const isSized = Object.values(change).some((value) => value !== undefined);
    // Credentials change in a running VM too, but not in its boot.
    if (isSized || vm.record.parent || vm.damaged || vm.state.state === "Booting") this.#require(vm, "set");
    await exclusive(vm, "set", async () => {
      if (isSized) await this.#resize(vm, change);
      if (credentials) await changeCredentials(this.#options.home, vm, credentials);
      this.#states.publish(vm);
    });
  }

  async #resize(vm: Vm, change: Omit<SetRequest, "credentials">): Promise<void> {
    requireUnlocked(this.#settings, change);
    const { disk_gb, image, undo_image, ...machine } = change;
    const { home } = this.#options;
    const asked = { ...await readRequest(vm.paths, vm.record), ...machine };
    const isOther = image !== undefined || undo_image === true;
    // No image is removed meanwhile.
    await keepingEnvironments(home, async () => {
      const request = isOther ? await withImage(home, vm, asked, { image, undo_image }) : asked;
      const { record: { cpus, ram_mb } } = await makeBoot(this.#options, vm.record.profile_id, request);
      if (disk_gb !== undefined) await growDisk(vm, disk_gb);
      await writeRequest(vm.paths, request);
      const images = isOther ? await imageRecord(home, request) : {};
      const record = { ...vm.record, cpus, ram_mb, scratch_gb: disk_gb ?? vm.record.scratch_gb, ...images };
      await writeRecord(vm.paths, record);
      vm.record = record;
    });
  }

  /** After an image change: compares the VM's own changes with the new image's, once it runs. */
  #compareImages(vm: Vm): void {
    if (vm.record.assets.before === undefined) return;
    this.imageConflicts(vm).catch((error) =>
      log.info(`${vm.record.name}: ${asSbxError(error, "comparing its image").message}`)
    );
  }

  /**
   * Files that both a VM and its new image have changed.
   * @throws {SbxError} the errors of {@linkcode imageConflicts}, and of its boot
   */
  async imageConflicts(vm: Vm): Promise<ImageConflicts> {
    if (vm.state.state === "Booting") await vm.booting;
    return await imageConflicts(vm);
  }

  /**
   * Deletes a VM. Its files, and its memory if it is suspended, stay in the bin for a day where the disk has
   * room.
   *
   * @param options.force also deletes work that was not pulled
   * @param options.keeps false: nothing goes to the bin
   * @throws {SbxError} `vm.unlanded`; `vm.not_found`: another request was first
   */
  async delete(vm: Vm, { force, keeps = true }: { force: boolean; keeps?: boolean }): Promise<void> {
    // This takes as long as the guest likes, so another request may delete the VM by force meanwhile.
    if (!force) await requireLanded(vm);
    const removal = exclusive(vm, "delete", async () => {
      // Compared by identity: a deleted and restored VM is a new object.
      if (!this.#registry.all().includes(vm)) {
        throw new SbxError("vm.not_found", `"${vm.record.name}" is deleted already`, {
          hint: "sbx list shows the VMs",
        });
      }
      const isKept = keeps && await this.#options.bin.takes(vm);
      // A VM that goes to the bin is stopped properly, so that it writes its data out.
      if (isAlive(vm.state)) await this.#end(vm, !isKept);
      await this.#states.erase(vm, isKept);
    });
    this.#removals.add(removal);
    await removal.finally(() => this.#removals.delete(removal));
  }

  /**
   * Deletes the VMs that were left behind, or with `all` every VM. VMs with work that was not pulled are
   * kept, unless `force` is set.
   *
   * @returns the names of deleted and kept VMs
   */
  async purge({ all = false, force = false }: PurgeRequest): Promise<PurgeResult> {
    const vms = this.#registry.all().filter((vm) => !vm.record.parent && (all || isLeftBehind(vm)));
    const result: PurgeResult = { removed: [], kept: [] };
    await Promise.all(vms.map(async (vm) => {
      try {
        await this.delete(vm, { force });
        result.removed.push(vm.record.name);
      } catch (error) {
        const { code } = error as SbxError;
        if (code === "vm.not_found") return;
        if (code !== "vm.unlanded") throw error;
        result.kept.push(vm.record.name);
      }
    }));
    return result;
  }

  /**
   * Restores a deleted VM from the bin.
   *
   * @param name new name of the VM
   * @throws {SbxError} `vm.not_found`, `vm.name_taken`
   */
  async restore(idOrName: string, name?: string): Promise<Vm> {
    const { bin, sessions } = this.#options;
    const deleted = await bin.get(idOrName);
    this.#registry.requireName(name ?? deleted.name);
    await bin.takeOut(deleted.id);
    let vm: Vm;
    try {
      vm = await this.#registry.open(deleted.id, (id) => sessions.get(id).catch(() => undefined));
      await this.#finishChange(vm);
      if (name !== undefined && !vm.damaged) {
        vm.record = { ...vm.record, name };
        await writeRecord(vm.paths, vm.record);
      }
      // Another VM may have got the name meanwhile.
      this.#registry.requireName(vm.record.name);
    } catch (error) {
      const { dir } = sessionPaths(this.#options.home, deleted.id);
      await bin.put({ record: deleted, dir }, deleted.deleted_at).catch((failure) => log.error(failure));
      throw error;
    }
    this.#registry.add(vm);
    sessions.put(vm.record, new Date().toISOString());
    this.#states.publish(vm);
    return vm;
  }

  /** Waits until a new VM is ready. @throws {SbxError} its boot failed */
  async booted(vm: Vm): Promise<void> {
    await vm.booting;
  }

  /**
   * Waits for a boot that is under way, and resumes a VM that was suspended while idle.
   *
   * @throws {SbxError} `vm.wrong_state` when the VM cannot run programs afterwards
   */
  async ready(vm: Vm, asker: Asker): Promise<void> {
    await vm.suspending;
    if (vm.waking || comesBack(vm)) {
      await this.#wake(vm, `it was suspended when idle, and ${asker} needed it`);
    } else if (vm.state.state === "Booting") await vm.booting;
    this.#require(vm, "exec");
  }

  /** Does work in a {@linkcode ready} VM; once more if it was suspended just before the work began. */
  async inGuest<T>(vm: Vm, asker: Asker, work: () => Promise<T>): Promise<T> {
    await this.ready(vm, asker);
    try {
      return await work();
    } catch (error) {
      if ((error as SbxError).code !== "vm.wrong_state") throw error;
      await this.ready(vm, asker);
      return await work();
    }
  }

  #wake(vm: Vm, why?: string): Promise<void> {
    vm.waking ??= { why, done: this.#startAndBoot(vm).finally(() => vm.waking = undefined) };
    return vm.waking.done;
  }

  async #startAndBoot(vm: Vm): Promise<void> {
    await this.start(vm);
    await vm.booting;
  }

  /** Ends the machine that is started ahead; VMs keep running. */
  async close(): Promise<void> {
    await this.#launcher.close();
  }

  async #end(vm: Vm, force: boolean): Promise<void> {
    if (vm.state.state === "Suspended") return this.#states.update(vm, await forgetMemory(vm));
    await this.#companions.removeOf(vm);
    const reply = await vm.process.call({ t: "Stop", force }).catch(async (error) => {
      if (isForeign(error)) await stopForeign(vm.record.id);
    });
    this.#states.update(vm, reply?.info ?? await settle(vm.paths, vm.state));
  }

  #require(vm: Vm, action: VmAction): void {
    requireAction(vm, action, this.hypervisor);
  }
}
