/** Makes VMs: checks the request, writes the record, and boots a new VM or a copy. */
import type { CreateRequest } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { requireKept } from "../../release/environment/mod.ts";
import { grantOf, madeBy, sessionPaths, type VmParent } from "../../session/mod.ts";
import { narrowLimits } from "../../machine/limit/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { Hypervisor } from "../../machine/vm/mod.ts";
import {
  type Boot,
  type BootSources,
  DEFAULT_PROFILE,
  makeBoot,
  readRequest,
  requireUnlocked,
  type VmRequest,
} from "./boot.ts";
import { joinNarrowing } from "../../policy/mod.ts";
import { withoutSecrets } from "../contract/credentials.ts";
import { projectRules } from "../contract/project.ts";
import { requireLabels } from "../contract/labels.ts";
import type { Admission } from "./admission.ts";
import type { Asked } from "./asked.ts";
import { companionContract } from "./mcp_companions.ts";
import type { Launcher, LauncherOptions } from "./launch.ts";
import { liveFolder } from "./live_folder.ts";
import type { Registry } from "./registry.ts";
import type { Sessions } from "../record/sessions.ts";
import type { VmStates } from "./vm_states.ts";
import { requireAction, type Vm } from "./vm.ts";
import { requireGrowth } from "./disk.ts";
import { makeVmFiles, spareScratchGb } from "./vm_files.ts";
import { VmProcess } from "./vm_process.ts";

/** Parts of the service that a new VM involves. */
export interface VmMakerOptions extends BootSources, Pick<LauncherOptions, "accelerators"> {
  hypervisor: Hypervisor;
  registry: Registry;
  sessions: Sessions;
  launcher: Launcher;
  states: VmStates;
  admission: Admission;
}

/** How a VM is made. */
export interface MakeOptions {
  /** it gets a disk */
  scratch: boolean;
  /** the VM that it works for */
  parent?: VmParent;
  /** the program that asked for it; absent: this service */
  client?: string;
  /** key of a request that may come again */
  asked?: Asked;
  /** aborts when its client has left: it no longer waits for room */
  gone?: AbortSignal;
}

/** Makes VMs, new ones and copies of stopped ones. */
export class VmMaker {
  readonly #home: Home;
  readonly #settings: SettingsStore;
  readonly #options: VmMakerOptions;
  readonly #registry: Registry;

  constructor(options: VmMakerOptions) {
    this.#options = options;
    this.#home = options.home;
    this.#settings = options.settings;
    this.#registry = options.registry;
  }

  /**
   * Makes a VM and starts its boot; `vm.booting` settles with the boot. A request or assets that are wrong
   * are refused before any file of the VM exists.
   */
  async make(
    request: CreateRequest,
    options: MakeOptions = { scratch: true },
  ): Promise<Vm> {
    const { launcher } = this.#options;
    this.#options.hypervisor.requireHost(request.arch);
    const source = request.from === undefined ? undefined : this.#findSource(request.from);
    if (source && request.live) {
      throw new SbxError("request.invalid", "a copy of a VM cannot have a folder of the host", {
        hint: "leave out one of from and live",
      });
    }
    if (source && request.arch && request.arch !== source.record.assets.arch) {
      throw new SbxError(
        "request.invalid",
        `"${source.record.name}" has a disk for ${source.record.assets.arch}`,
        {
          hint: "leave out the architecture: a copy has that of its source",
        },
      );
    }
    if (source && request.image !== undefined) {
      throw new SbxError(
        "request.invalid",
        `"${source.record.name}" has a disk for the image that it was made with`,
        {
          hint: "leave out the image: a copy has that of its source",
        },
      );
    }
    // A machine that is ready is for a VM that starts now, and not for one that may wait for hours.
    const waits = request.queue_secs !== undefined && this.#options.admission.isFull;
    const id = options.parent || source || request.live || waits ? crypto.randomUUID() : launcher.claimId();
    try {
      return await this.#make(id, request, options, source);
    } finally {
      await launcher.unclaim(id);
    }
  }

  async #make(
    id: string,
    request: CreateRequest,
    options: MakeOptions,
    source: Vm | undefined,
  ): Promise<Vm> {
    const { sessions, launcher, states } = this.#options;
    const project = await projectRules(this.#home, this.#options.corp, request);
    const vmRequest = await this.#completeRequest(id, { ...request, project }, source);
    const profileId = request.profile_id ?? source?.record.profile_id ?? DEFAULT_PROFILE;
    // A third party's program (an MCP server): it gets the refs that its definition names, and no others.
    const bootNow = () =>
      makeBoot(this.#options, profileId, vmRequest, {
        refs: options.parent === undefined,
        vm: id,
        diskGb: request.disk_gb,
      });
    let boot = await bootNow();
    // A name that is taken is refused now, and not after the wait.
    if (request.name !== undefined) this.#registry.requireName(request.name);
    using place = await this.#options.admission.enter({
      name: request.name,
      client: options.client,
      ramMb: boot.record.ram_mb,
      waitMs: (request.queue_secs ?? 0) * 1000,
      gone: options.gone,
    });
    // Profile, settings and corp's locks may have changed meanwhile. It got room for its memory of before.
    if (place.hasWaited) boot = await bootAfterWait(boot, bootNow);
    requireLabels(this.#home, grantOf(boot.contract), request.credentials);
    const devcontainer = source?.record.devcontainer ?? request.devcontainer;
    const agent = request.agent ?? source?.record.agent;
    const live = request.live && await liveFolder(this.#options, request.live);
    const paths = sessionPaths(this.#home, id);
    const scratchGb = source ? diskOfCopy(source, request.disk_gb) : boot.scratchGb;
    // A disk that was made ahead costs nothing.
    const hasScratch = options.scratch || await spareScratchGb(paths) === scratchGb;
    // An MCP server's resources come from no request: corp's locks replace its own.
    if (!options.parent) requireUnlocked(this.#settings, request);
    // Nothing is awaited from here to the registry: two requests at once cannot both get the name.
    const name = request.name ?? this.#registry.freeName();
    this.#registry.requireName(name);
    const vm: Vm = {
      record: {
        id,
        name,
        created_at: new Date().toISOString(),
        persistent: request.persistent ?? false,
        scratch_gb: hasScratch ? scratchGb : 0,
        made_by: madeBy(options.client),
        ...(options.asked && { asked: options.asked }),
        ...(options.parent && { parent: options.parent }),
        ...(live && { live }),
        ...(agent !== undefined && { agent }),
        ...(devcontainer && { devcontainer }),
        ...boot.record,
      },
      paths,
      process: new VmProcess(paths.socket),
      state: { state: "Booting", boot_stages: [], pid: 0 },
    };
    this.#registry.add(vm);
    // It counts there from now on.
    place[Symbol.dispose]();
    sessions.put(vm.record);
    try {
      const contract = options.parent ? companionContract(boot.contract) : boot.contract;
      // A reference may lead elsewhere later; the VM's disk is one for this environment.
      const { environment } = boot.record;
      // A removal that began before the VM was listed took it for unused.
      if (environment) await requireKept(this.#home, environment);
      const { key, reference: image } = environment ?? {};
      const completed = { ...vmRequest, ...(environment && { image, environment: key }) };
      await makeVmFiles(vm, completed, contract, source);
      await launcher.launch(vm, boot.assets);
    } catch (error) {
      await states.erase(vm);
      throw error;
    }
    states.publish(vm);
    return vm;
  }

  /** The values of a request, over the source request's; secrets are replaced by refs. */
  async #completeRequest(
    id: string,
    { cpus, ram_mb, arch, env, image, host_services, limits, credentials, project, budget }: CreateRequest,
    source: Vm | undefined,
  ): Promise<VmRequest> {
    const base = source && await readRequest(source.paths, source.record);
    return {
      cpus: cpus ?? base?.cpus,
      ram_mb: ram_mb ?? base?.ram_mb,
      // The programs on its disk are of one architecture.
      arch: source ? source.record.assets.arch : arch,
      host_services: host_services ?? base?.host_services,
      limits: narrowLimits(limits, base?.limits),
      image: image ?? base?.image,
      environment: base?.environment,
      before: base?.before,
      credentials: credentials ?? base?.credentials,
      // Its disk may have the source's folder.
      project: project && base?.project ? joinNarrowing(base.project, project) : project ?? base?.project,
      budget: budget ?? base?.budget,
      env: await withoutSecrets(this.#home, id, { ...base?.env, ...env }),
    };
  }

  #findSource(idOrName: string): Vm {
    const source = this.#registry.get(idOrName);
    requireAction(source, "fork", this.#options.hypervisor);
    if (source.state.state === "Stopped") return source;
    throw new SbxError("vm.wrong_state", `"${source.record.name}" is ${source.state.state}, not Stopped`, {
      hint: `sbx fork ${source.record.name} copies it with its memory`,
    });
  }
}

/** The configuration of a boot that waited for room. @throws {SbxError} `vm.limit`: it has more memory now */
async function bootAfterWait(before: Boot, bootNow: () => Promise<Boot>): Promise<Boot> {
  const boot = await bootNow();
  if (boot.record.ram_mb <= before.record.ram_mb) return boot;
  throw new SbxError("vm.limit", "the memory of VMs was raised while this one waited for room", {
    hint: "make it again",
  });
}

/** Size of the disk of a VM's copy, in `GiB`. @throws {SbxError} `disk.shrinks` */
function diskOfCopy({ record: { name, scratch_gb } }: Vm, asked = scratch_gb): number {
  requireGrowth(name, scratch_gb, asked);
  return asked;
}
