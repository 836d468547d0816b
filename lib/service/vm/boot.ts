/** The configuration of one boot, made from the profile, the settings, corp's locks and the request. */
import { currentArch } from "../../base/arch/mod.ts";
import { type Assets, bootFiles, INITRD, KERNEL, LAYER, OBOM, ROOTFS } from "../../release/asset/mod.ts";
import { ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { checkBootConfig, COMMANDS_PATH, isForbiddenVariable } from "../../machine/guest/wire/mod.ts";
import {
  type Environment,
  type EnvironmentConfig,
  getEnvironment,
  imagePorts,
  imageProgram,
} from "../../release/environment/mod.ts";
import {
  bootAssets,
  environmentOf,
  loadProfile,
  type Profile,
  requireCompatible,
} from "../../config/profile/mod.ts";
import {
  type Contract,
  grantOf,
  type MachineAbility,
  readContract,
  type VmPaths,
  type VmRecord,
} from "../../session/mod.ts";
import type { BootConfig, SettingsStore } from "../../config/settings/mod.ts";
import { narrowLimits, type VmLimits } from "../../machine/limit/mod.ts";
import type { Hypervisor } from "../../machine/vm/mod.ts";
import { type ContractSources, makeContract } from "../../home/mod.ts";
import { requireCorpImage } from "../../config/corp/mod.ts";
import { requireCorpProfile, requireCorpVersion } from "../contract/corp.ts";
import { requireEnrolment } from "../contract/enrolment.ts";
import { guestRefs, guestTrust } from "../contract/credentials.ts";
import { Rules } from "../contract/rules.ts";
import { deprecatedPacks, type ReleaseStanding } from "../contract/publisher_status.ts";
import { requireNetwork } from "../../home/value_check/mod.ts";
import { join } from "node:path";
import { z } from "zod";
import { CreateRequest, EnvSchema, type SetRequest, type TemplateRequest } from "../../client/api/mod.ts";
import type { AcceleratorChooser } from "./accelerator.ts";
import type { TemplateFor } from "./templates.ts";

/** Profile of a VM that names none. */
export const DEFAULT_PROFILE = "code";

/** Limit of running VMs without the setting (docs/design/contracts/02-http.md §2). */
const MAX_RUNNING = 10;
const MAX_RUNNING_SETTING = "vm.resources.max_concurrent_vms";

const MAX_RAM_SETTING = "vm.resources.max_ram_gb";

/** A setting, the key of a profile's `[vm]`, and the value without either. */
const CPUS = { setting: "vm.resources.cpu_count", key: "cpu_count", fallback: 2 } as const;
const RAM_GB = { setting: "vm.resources.ram_gb", key: "ram_gb", fallback: 1 } as const;
const SCRATCH_GB = {
  setting: "vm.resources.scratch_disk_size_gb",
  key: "scratch_disk_size_gb",
  fallback: 20,
} as const;
type Resource = typeof CPUS | typeof RAM_GB | typeof SCRATCH_GB;

/** Sources of a boot, besides the profile. */
export interface BootSources extends ContractSources {
  home: Home;
  standing: ReleaseStanding;
  hypervisor: Pick<Hypervisor, "features" | "lackOf">;
}

/** The part of a record that each boot replaces. */
type BootRecord = Pick<
  VmRecord,
  | "profile_id"
  | "profile_revision"
  | "cpus"
  | "ram_mb"
  | "abilities"
  | "limits"
  | "env"
  | "files"
  | "credentials"
  | "environment"
  | "before"
  | "assets"
>;

export interface Boot {
  record: BootRecord;
  contract: Contract;
  /** size of a new VM's disk, in `GiB` */
  scratchGb: number;
  /** to be verified before the machine starts */
  assets: Assets;
}

/**
 * Makes the configuration of a boot from the profile and the settings as they are now.
 *
 * A resource has, in this order, the value that corp locks, the request's, the profile's, or the settings'. A
 * variable has corp's value where corp locks it, else the request's, else the settings'.
 *
 * @param options.refs whether the guest gets the refs of all credentials that its profile may use
 * @param options.vm id of the VM, which has placeholders of its own for keys that sign; a fork's
 * programs get theirs when they start
 * @param options.diskGb requested size of a new VM's disk, in `GiB`
 * @throws {SbxError} `profile.not_found`, `profile.invalid`, `profile.incompatible`,
 * `corp.version`, `corp.profile`, `assets.missing`, `release.revoked`, `settings.boot.invalid`,
 * `boot.invalid`, `vm.not_supported`, as {@linkcode requireEnrolment}, {@linkcode makeContract}
 * and {@linkcode requireNetwork}
 */
export async function makeBoot(
  sources: BootSources,
  profileId: string,
  request: VmRequest,
  { refs: withRefs, vm, diskGb }: { refs: boolean; vm?: string; diskGb?: number } = { refs: true },
): Promise<Boot> {
  const { home, settings } = sources;
  const { corp } = sources;
  requireCorpVersion(corp);
  requireCorpProfile(corp, profileId);
  await requireEnrolment(home, corp);
  const profile = await loadProfile(home, profileId);
  requireCompatible(profile);
  const arch = request.arch ?? currentArch();
  const environment = await environmentOf(home, profile, arch, request);
  if (environment) requireCorpImage(corp.state, environment);
  const assets = await bootAssets(home, profile, arch, environment);
  await requireStanding(sources, profile, assets);
  // With the locks that corp has just set.
  await settings.reload();
  const abilities = abilitiesOf(settings, profile, sources.hypervisor);
  const limits = limitsOf(profile, request, sources.hypervisor);
  const valueOf = (resource: Resource, requestValue?: number) =>
    resourceOf(resource, settings, profile, requestValue);
  await new Rules(home, corp).noticeFile(profile);
  const contract = await makeContract(sources, profile, request.host_services, request);
  const granted = grantOf(contract, request.credentials);
  const [trust, refs] = await Promise.all([
    guestTrust(home),
    guestRefs(home, vm, withRefs ? granted : { ...granted, providers: [] }),
  ]);
  const builtIn = { ...environment && imageEnv(environment), ...trust.env, ...refs.env };
  const guest = guestConfig(settings.bootConfig(), request.env, builtIn);
  guest.files.push(trust.file, ...refs.files);
  checkBootConfig(guest.env, guest.files);
  for (const sentence of deprecatedPacks(contract)) log.warn(sentence);
  // Checked later, the VM would run without a network and without a message.
  await requireNetwork(contract.network);
  const [cpus, ramMb] = [
    valueOf(CPUS, request.cpus),
    valueOf(RAM_GB, request.ram_mb && request.ram_mb / 1024) * 1024,
  ];
  requireHostSize(cpus, ramMb);
  return {
    contract,
    record: {
      profile_id: profile.id,
      profile_revision: profile.revision,
      cpus,
      ram_mb: ramMb,
      abilities: abilities.length > 0 ? abilities : undefined,
      limits,
      ...guest,
      credentials: request.credentials,
      environment: environment && environmentRecord(environment),
      before: request.before && await imageOfBefore(home, request.before),
      assets: {
        version: assets.version,
        arch: assets.arch,
        ...(assets.image && { image: assets.image.profile }),
        kernel: assets.kernel.path,
        initrd: assets.initrd.path,
        rootfs: assets.rootfs.path,
        ...(assets.layer && { layer: assets.layer.path }),
        ...await comparedRootfs(request, assets),
        hashes: hashesOf(assets),
      },
    },
    scratchGb: valueOf(SCRATCH_GB, diskGb),
    assets,
  };
}

/** The part of an environment that the record of its VM has. */
export function environmentRecord(
  { key, reference, digest, config }: Environment,
): NonNullable<VmRecord["environment"]> {
  const { workdir, user } = config;
  const [program, ports] = [imageProgram(config), imagePorts(config)];
  return {
    ...{ key, reference, digest, workdir, user },
    ...program && { program },
    ...ports.length > 0 && { ports },
  };
}

/** The image that a VM can go back to, for its record. */
export async function imageOfBefore(
  home: Home,
  { image, environment }: NonNullable<VmRequest["before"]>,
): Promise<VmRecord["before"]> {
  const found = environment && await getEnvironment(home, environment).catch(() => undefined);
  if (!found) return environment ? { key: environment } : {};
  return { key: found.key, reference: image ?? found.reference, digest: found.digest };
}

/** The root file system that a VM's changes were made on, if they were not compared with the new one yet. */
async function comparedRootfs(
  { before }: VmRequest,
  { rootfs, layer }: Assets,
): Promise<{ before?: string }> {
  const path = before?.rootfs;
  if (path === undefined || path === rootfs.path || !layer) return {};
  // Without it the VM starts all the same: the comparison is for people.
  return await ifFound(Deno.stat(path)) ? { before: path } : {};
}

/** Variables of an OCI image, without the ones that no guest has. sbx's own commands stay the first ones. */
export function imageEnv({ config: { env } }: { config: EnvironmentConfig }): Record<string, string> {
  const usable = Object.entries(env).filter(([name]) => !isForbiddenVariable(name));
  return Object.fromEntries(
    usable.map(([name, value]) => [name, name === "PATH" ? `${COMMANDS_PATH}:${value}` : value]),
  );
}

/** Refuses revoked files, and warns of deprecated ones. */
async function requireStanding(
  { standing }: BootSources,
  profile: Profile,
  assets: Assets,
): Promise<void> {
  const deprecated = await standing.require(profile, bootFiles(assets).map(({ hash }) => hash));
  for (const sentence of deprecated) log.warn(sentence);
}

/** Size that a VM may have on every host: a small host is slow with it, and no more. */
const ANY_HOST = { cpus: 8, ramGib: 16 };

/** @throws {SbxError} `vm.too_large`: this host has fewer processors, or less memory */
function requireHostSize(cpus: number, ramMb: number): void {
  const hostCpus = navigator.hardwareConcurrency;
  const hostGib = Math.floor(Deno.systemMemoryInfo().total / 1024 ** 3);
  const [most, mostGib] = [Math.max(hostCpus, ANY_HOST.cpus), Math.max(hostGib, ANY_HOST.ramGib)];
  if (cpus > most) {
    throw new SbxError("vm.too_large", `this host has ${hostCpus} processors: no VM of ${cpus}`, {
      hint: `give it at most ${most} (--cpus, cpu_count of its profile, vm.resources.cpu_count)`,
    });
  }
  if (ramMb > mostGib * 1024) {
    throw new SbxError("vm.too_large", `this host has ${hostGib} GiB of memory: no VM of ${ramMb} MiB`, {
      hint: `give it at most ${mostGib} GiB (--ram, ram_gb of its profile, vm.resources.ram_gb)`,
    });
  }
}

/**
 * Refuses a request for another number of CPUs or another size of memory or disk than corp locks. An existing
 * VM is not refused: it gets corp's CPUs and memory at its next boot.
 *
 * @throws {SbxError} `settings.corp_locked`
 */
export function requireUnlocked(
  settings: SettingsStore,
  { cpus, ram_mb, disk_gb }: SetRequest,
) {
  for (
    const [resource, requestValue, unit] of [
      [CPUS, cpus, "CPUs"],
      [RAM_GB, ram_mb && ram_mb / 1024, "GiB of memory"],
      [SCRATCH_GB, disk_gb, "GiB of disk"],
    ] as const
  ) {
    const locked = lockedValue(settings, resource);
    if (requestValue === undefined || locked === undefined || requestValue === locked) continue;
    throw new SbxError(
      "settings.corp_locked",
      `corp gives each VM ${locked} ${unit}, so it cannot have ${requestValue}`,
      { hint: `leave it out; sbx settings explain ${resource.setting} shows where corp sets it` },
    );
  }
}

/** Limit of running VMs. */
export function maxRunning(settings: SettingsStore): number {
  return numberOf(settings, MAX_RUNNING_SETTING) ?? MAX_RUNNING;
}

/** Memory that all running VMs may have together, in `MiB`; undefined: no limit. */
export function maxRamMb(settings: SettingsStore): number | undefined {
  const gb = numberOf(settings, MAX_RAM_SETTING) ?? 0;
  return gb > 0 ? gb * 1024 : undefined;
}

/** Hashes by logical name: the file names that a profile pins may be equal. */
function hashesOf({ kernel, initrd, rootfs, layer, obom }: Assets): Record<string, string> {
  return {
    [KERNEL]: kernel.hash,
    [INITRD]: initrd.hash,
    [ROOTFS]: rootfs.hash,
    ...(layer && { [LAYER]: layer.hash }),
    ...(obom && { [OBOM]: obom.hash }),
  };
}

function resourceOf(
  resource: Resource,
  settings: SettingsStore,
  profile: Profile,
  requestValue?: number,
): number {
  return lockedValue(settings, resource) ?? requestValue ?? profile.vm[resource.key] ??
    numberOf(settings, resource.setting) ?? resource.fallback;
}

function lockedValue(settings: SettingsStore, { setting }: Resource): number | undefined {
  return settings.resolved.byId.get(setting)?.corp_locked ? numberOf(settings, setting) : undefined;
}

function numberOf(settings: SettingsStore, id: string): number | undefined {
  const value = settings.inForce(id);
  return typeof value === "number" ? value : undefined;
}

/**
 * Variables and files of the guest: sbx's own, over them the settings', and over
 * them the variables of the request.
 */
function guestConfig(
  config: BootConfig,
  requestEnv: Record<string, string>,
  builtIn: Record<string, string>,
): Pick<BootRecord, "env" | "files"> {
  const unlocked = Object.entries(requestEnv).filter(([name]) => !config.locked.has(name));
  return {
    env: { ...builtIn, ...config.env, ...Object.fromEntries(unlocked) },
    files: config.files.map(({ path, content, mode }) => ({
      path,
      content: new TextEncoder().encode(content).toBase64(),
      mode,
    })),
  };
}

interface Ability {
  setting: string;
  /** of a profile's `[vm]` */
  key: "rosetta" | "nested_virtualization" | "user_namespaces";
  what: string;
  /** the guest's kernel has it, on every host */
  isOfGuest?: true;
}

const ABILITIES: Record<MachineAbility, Ability> = {
  rosetta: { setting: "vm.abilities.rosetta", key: "rosetta", what: "Rosetta" },
  nested: {
    setting: "vm.abilities.nested_virtualization",
    key: "nested_virtualization",
    what: "nested virtualization",
  },
  user_namespaces: {
    setting: "vm.abilities.user_namespaces",
    key: "user_namespaces",
    what: "user namespaces",
    isOfGuest: true,
  },
};

/**
 * The abilities requested by a profile, or else by the settings; values locked by corp precede both.
 *
 * @throws {SbxError} `vm.not_supported`: this host cannot give one of them
 */
export function abilitiesOf(
  settings: SettingsStore,
  profile: Profile,
  hypervisor: Pick<Hypervisor, "features" | "lackOf">,
): MachineAbility[] {
  const asked = Object.entries(ABILITIES) as [MachineAbility, Ability][];
  return asked.flatMap(([ability, { setting, key, what, isOfGuest }]) => {
    const isLocked = settings.resolved.byId.get(setting)?.corp_locked;
    const chosen = isLocked ? undefined : profile.vm[key];
    if (!(chosen ?? settings.inForce(setting) === true)) return [];
    if (isOfGuest || hypervisor.features[ability]) return [ability];
    const asker = chosen === undefined
      ? `sbx settings set ${setting} false`
      : `set ${key} = false in [vm] of the profile "${profile.id}"`;
    const lack = hypervisor.lackOf(ability) ?? "the hypervisor has none";
    throw new SbxError("vm.not_supported", `this host cannot give a VM ${what}: ${lack}`, {
      hint: `${asker}, or run the VM on a host that can`,
    });
  });
}

/**
 * The limits of a profile, made smaller by the request's.
 *
 * @throws {SbxError} `vm.not_supported`: this host cannot keep one of them
 */
function limitsOf(
  { id, vm }: Profile,
  request: VmRequest,
  hypervisor: Pick<Hypervisor, "features" | "lackOf">,
): VmLimits | undefined {
  const limits = narrowLimits(vm.limits, request.limits);
  const needsHost = limits?.cpu_percent !== undefined || limits?.disk_mb_per_s !== undefined;
  if (!needsHost || hypervisor.features.rate_limits) return limits;
  const lack = hypervisor.lackOf("rate_limits") ?? "the hypervisor cannot";
  throw new SbxError("vm.not_supported", `this host limits no VM's processors or disk: it ${lack}`, {
    hint: `leave out cpu_percent and disk_mb_per_s, also in [vm.limits] of the profile "${id}"`,
  });
}

/**
 * The part of a request that each boot starts from. The VM's record has the results, made of this, the
 * profile, settings and corp; the next boot makes them again.
 */
export const VmRequest = z.strictObject({
  cpus: CreateRequest.shape.cpus,
  ram_mb: CreateRequest.shape.ram_mb,
  arch: CreateRequest.shape.arch,
  env: EnvSchema,
  host_services: CreateRequest.shape.host_services,
  limits: CreateRequest.shape.limits,
  credentials: CreateRequest.shape.credentials,
  project: CreateRequest.shape.project,
  budget: CreateRequest.shape.budget,
  image: CreateRequest.shape.image,
  environment: z.string().optional().describe("key of the environment that is the VM's"),
  before: z.strictObject({
    image: CreateRequest.shape.image,
    environment: z.string().optional().describe("absent: the image of its profile's packages"),
    rootfs: z.string().optional().describe(
      "path of the root file system to compare with; absent: that is done",
    ),
  }).optional().describe("image that it can go back to"),
});
export type VmRequest = z.infer<typeof VmRequest>;

export async function writeRequest(paths: Pick<VmPaths, "dir">, request: VmRequest): Promise<void> {
  await writeAtomic(pathOf(paths), JSON.stringify(request) + "\n");
}

/**
 * Reads the request of a VM. Without a usable file it is the VM's own record, and
 * the rules of its last contract.
 */
export async function readRequest(
  paths: Pick<VmPaths, "dir" | "contract">,
  record: VmRecord,
): Promise<VmRequest> {
  const path = pathOf(paths);
  try {
    return VmRequest.parse(JSON.parse(await Deno.readTextFile(path)));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) {
      log.warn(`${path} is damaged: the VM boots with the values of its last boot`);
    }
    const { cpus, ram_mb, env, limits, credentials, environment, assets: { arch } } = record;
    // Rules of a project file and limits hold on.
    const contract = await readContract(paths).catch(ignore("it was damaged too, or never made"));
    return {
      cpus,
      ram_mb,
      arch,
      env,
      limits,
      credentials,
      ...(environment && { environment: environment.key }),
      ...(contract?.project && { project: contract.project }),
      ...(contract?.budget && { budget: contract.budget }),
    };
  }
}

function pathOf({ dir }: Pick<VmPaths, "dir">): string {
  return join(dir, "asked.json");
}

/** The machine that a new VM with this request would have. @throws {SbxError} as {@linkcode makeBoot} */
export async function templateFor(
  sources: BootSources & { accelerators: AcceleratorChooser },
  { profile_id = DEFAULT_PROFILE, cpus, ram_mb, arch, image }: TemplateRequest,
): Promise<TemplateFor> {
  const { assets, record } = await makeBoot(sources, profile_id, { cpus, ram_mb, arch, image, env: {} });
  const { accelerator } = await sources.accelerators.choose(assets);
  return { cpus: record.cpus, ram_mb: record.ram_mb, accelerator, assets };
}
