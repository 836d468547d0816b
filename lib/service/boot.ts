/** What a VM boots with: made of its profile, the settings, corp's locks and what was asked for, anew for each boot. */
import type { Assets } from "../asset/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import { checkBootConfig } from "../guest/limit.ts";
import type { Home } from "../base/home/mod.ts";
import { bootAssets, currentArch, loadProfile, type Profile, requireCompatible } from "../profile/mod.ts";
import type { Contract, VmRecord } from "../session/mod.ts";
import type { BootConfig, SettingsStore } from "../settings/mod.ts";
import type { Asked } from "./asked.ts";
import { guestRefs, guestTrust } from "./guest_secrets.ts";
import { type ContractSources, makeContract } from "./contract.ts";
import { requireNetwork } from "./value_check.ts";

/** VMs at once unless settings say otherwise (contracts.md §2). */
const MAX_RUNNING = 10;
const MAX_RUNNING_SETTING = "vm.resources.max_concurrent_vms";

/** A setting, the key of a profile's `[vm]`, and what holds where neither is there. */
const CPUS = { setting: "vm.resources.cpu_count", key: "cpu_count", fallback: 2 } as const;
const RAM_GB = { setting: "vm.resources.ram_gb", key: "ram_gb", fallback: 1 } as const;
const SCRATCH_GB = {
  setting: "vm.resources.scratch_disk_size_gb",
  key: "scratch_disk_size_gb",
  fallback: 4,
} as const;
type Resource = typeof CPUS | typeof RAM_GB | typeof SCRATCH_GB;

/** What a boot is made of, beside the profile. */
export interface BootSources extends ContractSources {
  home: Home;
}

/** The part of a record that each boot makes anew. */
type BootRecord = Pick<
  VmRecord,
  "profile_id" | "profile_revision" | "cpus" | "ram_mb" | "env" | "files" | "assets"
>;

export interface Boot {
  record: BootRecord;
  contract: Contract;
  /** what the disk of a new VM should have, in GiB */
  scratchGb: number;
  /** to be verified before the machine starts */
  assets: Assets;
}

/**
 * Reads the profile and the settings as they are now, and makes of them what a VM boots with.
 *
 * A resource is what corp locks; else what was asked for; else what the profile says; else what the settings say. A
 * variable is corp's where corp locks it; else what was asked for; else the settings'.
 *
 * @throws {SbxError} `profile.not_found`, `profile.invalid`, `profile.incompatible`, `assets.missing`,
 * `settings.boot.invalid`, `boot.invalid`, those of {@linkcode makeContract} and {@linkcode requireNetwork}
 */
export async function makeBoot(
  sources: BootSources,
  profileId: string,
  asked: Asked,
): Promise<Boot> {
  const { home, settings } = sources;
  const profile = await loadProfile(home, profileId);
  requireCompatible(profile);
  const assets = await bootAssets(home, profile, currentArch());
  // A lock that corp has just made holds for this boot.
  await settings.reload();
  const resource = (of: Resource, askedFor?: number) => resourceOf(of, settings, profile, askedFor);
  const [trust, refs] = await Promise.all([guestTrust(home), guestRefs(home, profile.credentials.providers)]);
  const guest = guestConfig(settings.bootConfig(), asked.env, { ...trust.env, ...refs });
  guest.files.push(trust.file);
  checkBootConfig(guest.env, guest.files);
  const contract = await makeContract(sources, profile);
  // Found out later, the VM would run without a network and nobody would be told.
  await requireNetwork(contract.network);
  return {
    contract,
    record: {
      profile_id: profile.id,
      profile_revision: profile.revision,
      cpus: resource(CPUS, asked.cpus),
      ram_mb: resource(RAM_GB, asked.ram_mb && asked.ram_mb / 1024) * 1024,
      ...guest,
      assets: {
        version: assets.version,
        kernel: assets.kernel.path,
        initrd: assets.initrd.path,
        rootfs: assets.rootfs.path,
      },
    },
    scratchGb: resource(SCRATCH_GB),
    assets,
  };
}

/**
 * Refuses to make a VM with another number of CPUs or another memory than corp locks: who asks should know. One that
 * exists already gets what corp says at its next boot.
 *
 * @throws {SbxError} `settings.corp_locked`
 */
export function requireUnlocked(settings: SettingsStore, { cpus, ram_mb }: Pick<Asked, "cpus" | "ram_mb">) {
  for (
    const [resource, asked, unit] of [[CPUS, cpus, "CPUs"], [RAM_GB, ram_mb && ram_mb / 1024, "GiB"]] as const
  ) {
    const locked = lockedValue(settings, resource);
    if (asked === undefined || locked === undefined || asked === locked) continue;
    throw new SbxError(
      "settings.corp_locked",
      `corp gives each VM ${locked} ${unit}, so it cannot have ${asked}`,
      {
        hint: `leave it out; sbx settings explain ${resource.setting} shows where corp says so`,
      },
    );
  }
}

/** Most VMs that may run at the same time. */
export function maxRunning(settings: SettingsStore): number {
  return numberOf(settings, MAX_RUNNING_SETTING) ?? MAX_RUNNING;
}

function resourceOf(of: Resource, settings: SettingsStore, profile: Profile, asked?: number): number {
  return lockedValue(settings, of) ?? asked ?? profile.vm[of.key] ?? numberOf(settings, of.setting) ??
    of.fallback;
}

function lockedValue(settings: SettingsStore, { setting }: Resource): number | undefined {
  return settings.resolved.byId.get(setting)?.corp_locked ? numberOf(settings, setting) : undefined;
}

/** Absent where `SBX_DEFAULTS_CONFIG` names a file without this setting. */
function numberOf(settings: SettingsStore, id: string): number | undefined {
  const value = settings.resolved.byId.get(id)?.effective_value;
  return typeof value === "number" ? value : undefined;
}

/** What the guest is given: sbx's own variables, the settings' variables and files, and the variables that were asked for. */
function guestConfig(
  config: BootConfig,
  asked: Record<string, string>,
  own: Record<string, string>,
): Pick<BootRecord, "env" | "files"> {
  const free = Object.entries(asked).filter(([name]) => !config.locked.has(name));
  return {
    env: { ...own, ...config.env, ...Object.fromEntries(free) },
    files: config.files.map(({ path, content, mode }) => ({
      path,
      content: new TextEncoder().encode(content).toBase64(),
      mode,
    })),
  };
}
