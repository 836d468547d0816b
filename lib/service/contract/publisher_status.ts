/** Publisher status of profiles and images: revoked ones start no VM, deprecated ones cause a warning. */
import { basename } from "node:path";
import { blake3 } from "../../base/hash/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { loadProfile, type Profile } from "../../config/profile/mod.ts";
import {
  type ProfileIdentity,
  ReleaseMemory,
  requireNotRevoked,
  type Standing,
  standingOfAssets,
  standingOfProfile,
} from "../../release/mod.ts";
import { bootPaths, type Contract, readContract, type VmRecord } from "../../session/mod.ts";
import type { Vm } from "../vm/vm.ts";

/** Boot files of a machine, by their paths and hashes. */
type BootFiles = Pick<VmRecord["assets"], "kernel" | "initrd" | "rootfs" | "layer" | "hashes">;

/**
 * Answers from the release graphs that a home remembers (docs/design/contracts/10-release.md §10, "Record
 * statuses").
 */
export class ReleaseStanding {
  readonly #home: Pick<Home, "dir" | "profilesDir">;
  readonly #memory: ReleaseMemory;

  constructor(home: Pick<Home, "dir" | "profilesDir">) {
    this.#home = home;
    this.#memory = new ReleaseMemory(home);
  }

  /**
   * Refuses a profile or an image that was revoked.
   *
   * @returns one sentence for each that is deprecated
   * @throws {SbxError} `release.revoked`, `release.memory.invalid`
   */
  async require(profile: Profile, hashes: readonly string[]): Promise<string[]> {
    const memory = await this.#memory.read();
    const { id, revision } = profile;
    return [
      requireNotRevoked(standingOfProfile(memory, identityOf(profile)), `profile "${id}" ${revision}`),
      requireNotRevoked(standingOfAssets(memory, hashes), `the image of profile "${id}"`),
    ].filter((sentence) => sentence !== undefined);
  }

  /** Refuses to resume a machine whose image was revoked. @throws {SbxError} as {@linkcode require} */
  async requireMachine(name: string, files: BootFiles): Promise<void> {
    requireNotRevoked(
      await this.#ofFiles(files),
      `the image that "${name}" was suspended with`,
      `sbx stop ${name} gives its memory up: it then starts from its disk, with the image that is installed`,
    );
  }

  /** Deprecated and revoked parts of a VM, running or not: one sentence each. */
  async notesOf({ record, paths }: Pick<Vm, "record" | "paths">): Promise<string[]> {
    const { profile_id, profile_revision, assets } = record;
    const contract = await readContract(paths).catch(() => undefined);
    const profile = await loadProfile(this.#home, profile_id).catch(() => undefined);
    const standing = profile?.revision === profile_revision
      ? standingOfProfile(await this.#memory.read(), identityOf(profile))
      : undefined;
    return [
      describe(standing, `profile "${profile_id}" ${profile_revision}`),
      describe(await this.#ofFiles(assets), "its image"),
      ...(contract ? deprecatedPacks(contract) : []),
    ].filter((sentence) => sentence !== undefined);
  }

  async #ofFiles(files: BootFiles): Promise<Standing | undefined> {
    const hashes = files.hashes ? Object.values(files.hashes) : prefixesOf(files);
    return standingOfAssets(await this.#memory.read(), hashes);
  }
}

/** First characters of the hashes, from the installed names: records of an older sbx have no others. */
function prefixesOf(assets: BootFiles): string[] {
  return bootPaths({ assets }).flatMap((path) => /-([0-9a-f]{16})(?=\.|$)/.exec(basename(path))?.[1] ?? []);
}

/** Detection packs of a contract that their authors deprecated, one sentence each. */
export function deprecatedPacks({ corp, profile, detection }: Contract): string[] {
  const packs = [...corp.packs, ...profile.packs, ...detection.user, ...detection.runtime];
  return packs.filter(({ pack_status }) => pack_status === "deprecated").map(({ pack_id, pack_version }) =>
    `the detection pack "${pack_id}" ${pack_version} is deprecated by its author`
  );
}

function identityOf({ id, revision, source, document }: Profile): ProfileIdentity {
  return { id, revision, blake3: blake3(document.text), isBuiltin: source === "builtin" };
}

function describe(standing: Standing | undefined, what: string): string | undefined {
  if (standing?.status !== "deprecated" && standing?.status !== "revoked") return undefined;
  const { status, version, channel } = standing;
  return `${what} is ${status} with release ${version} of channel "${channel}": sbx update installs another one`;
}
