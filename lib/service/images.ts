/** Images of one home: lists their users, and removes files that no image needs. */
import { currentArch } from "../base/arch/mod.ts";
import { dirname, join } from "node:path";
import { type Freed, pruneAssets, removeImage } from "../release/asset/mod.ts";
import {
  diskBytes,
  type Environment,
  ENVIRONMENT_KEY,
  environmentNames,
  environmentsDir,
  type FreedEnvironments,
  isBuildName,
  listEnvironments,
  parseReference,
  removeEnvironments,
} from "../release/environment/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { didYouMean } from "../base/text/mod.ts";
import { bootAssets, imageReference, listProfiles, pinnedNames } from "../config/profile/mod.ts";
import { bootPaths } from "../session/mod.ts";
import type { Bin } from "./vm/bin.ts";
import type { Registry } from "./vm/registry.ts";
import { isAlive, type Vm } from "./vm/vm.ts";

/**
 * Age of files that the service removes unasked, in `ms`: a person may have put one there for a pin to come.
 */
const OLD_MS = 24 * 3600 * 1000;

export interface ImagesOptions {
  home: Home;
  registry: Registry;
  bin: Pick<Bin, "assets" | "environments">;
  /** paths that the machine which was started ahead has booted from */
  spareAssets(): string[];
  /** removes templates that no machine can start from any more */
  cleanTemplates(): Promise<void>;
}

/** An image that was removed. */
export interface RemovedImage extends Freed {
  /** profiles that have no image now */
  without_image: string[];
  /** names of VMs that still run, or are suspended, with it */
  used_by: string[];
}

/** An environment and its users. */
export interface ListedEnvironment {
  environment: Environment;
  /** that lead to it now */
  references: string[];
  /** of its files, without the layers that it shares */
  bytes: number;
  /** names of VMs that have it, or can go back to it */
  used_by: string[];
  /** ids of profiles that name it */
  profiles: string[];
}

/** Installed images of one home, and the files that none of them needs any more. */
export class Images {
  readonly #options: ImagesOptions;

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  /**
   * Removes the image of a profile. Its VMs that run or are suspended keep the files until they are stopped.
   *
   * @throws {SbxError} `image.not_found` (404); `image.shared` (409): the folder belongs to other homes too
   */
  async remove(profile: string): Promise<RemovedImage> {
    const { home, registry, cleanTemplates } = this.#options;
    this.#requireOwn();
    const before = await this.#profilesWithImage();
    const freed = await removeImage(home, profile, await this.#use());
    const after = await this.#profilesWithImage();
    await cleanTemplates();
    return {
      ...freed,
      without_image: [...before.difference(after)],
      used_by: registry.all().filter((vm) => vm.record.assets.image === profile && hasMachine(vm))
        .map(({ record }) => record.name),
    };
  }

  /**
   * Removes the files of earlier releases.
   *
   * @param ageMs files that were changed since stay, in `ms`
   * @param isDry only says which would go
   * @throws {SbxError} `image.shared`; a profile or manifest cannot be read
   */
  async prune(ageMs = 0, isDry = false): Promise<Freed> {
    this.#requireOwn();
    const freed = await pruneAssets(this.#options.home, await this.#use(), ageMs, isDry);
    if (!isDry) await this.#options.cleanTemplates();
    return freed;
  }

  /** Removes files that have long been unused; an error waits for {@linkcode prune}. */
  async pruneOld(): Promise<void> {
    if (!this.isOwn) return;
    const { files, bytes } = await this.prune(OLD_MS);
    if (files.length > 0) {
      log.info(`removed ${files.join(", ")}: VM assets that nothing uses (${bytes} bytes)`);
    }
  }

  /** Environments of this home, the newest first. */
  async environments(): Promise<ListedEnvironment[]> {
    const { home, registry } = this.#options;
    const [all, names, profiles] = await Promise.all([
      listEnvironments(home),
      environmentNames(home),
      listProfiles(home),
    ]);
    return await Promise.all(all.map(async (environment): Promise<ListedEnvironment> => {
      const { key, arch } = environment;
      const references = names.filter((name) => name.key === key && name.arch === arch)
        .map(({ reference }) => reference).filter((reference) => !isBuildName(reference));
      return {
        environment,
        references,
        bytes: await diskBytes(join(environmentsDir(home), key)),
        used_by: registry.all().filter((vm) => hasEnvironment(home, vm, key)).map(({ record }) =>
          record.name
        ),
        profiles: profiles.flatMap((listed) => {
          const from = "profile" in listed ? imageReference(listed.profile) : undefined;
          return from !== undefined && references.includes(parseReference(from).canonical) ? [listed.id] : [];
        }),
      };
    }));
  }

  /**
   * Removes an environment.
   *
   * @param name its key, or a reference that leads to it
   * @throws {SbxError} `environment.not_found` (404), `environment.in_use` (409), `environment.busy` (409)
   */
  async removeEnvironment(name: string): Promise<FreedEnvironments> {
    const listed = await this.environments();
    const isKey = ENVIRONMENT_KEY.test(name);
    const canonical = isKey ? name : parseReference(name).canonical;
    const found = listed.filter(({ environment: { key, reference }, references }) =>
      isKey
        ? key === name
        : references.includes(canonical) || references.length === 0 && reference === canonical
    );
    if (found.length === 0) {
      throw new SbxError("environment.not_found", `this home does not have the image ${name}`, {
        hint: didYouMean(
          name,
          listed.flatMap(({ environment, references }) => [environment.reference, ...references]),
        ) ?? "sbx image list shows the images",
      });
    }
    const users = found.flatMap(({ used_by }) => used_by);
    if (users.length > 0) {
      throw new SbxError("environment.in_use", `the image ${name} is that of ${users.join(", ")}`, {
        hint: "they boot it, or can go back to it: sbx delete NAME deletes a VM",
      });
    }
    const keys = new Set(found.map(({ environment: { key } }) => key));
    return await this.#freed(({ key }) => !keys.has(key));
  }

  /**
   * Removes the environments that no VM has and no profile names.
   *
   * @param isDry only says which would go
   * @throws {SbxError} `environment.busy` (409)
   */
  async collectEnvironments(isDry = false): Promise<FreedEnvironments> {
    const used = (await this.environments()).filter(({ used_by, profiles }) =>
      used_by.length + profiles.length > 0
    );
    const keys = new Set(used.map(({ environment: { key } }) => key));
    return await this.#freed(({ key }) => keys.has(key), isDry);
  }

  async #freed(
    isWanted: (environment: Environment) => boolean,
    isDry = false,
  ): Promise<FreedEnvironments> {
    const { home, registry, bin, cleanTemplates } = this.#options;
    const deleted = new Set(await bin.environments());
    const ofSuspended = await bin.assets();
    // A VM that was made meanwhile keeps its own.
    const isUsed = (key: string) =>
      deleted.has(key) || isOf(home, ofSuspended, key) ||
      registry.all().some((vm) => hasEnvironment(home, vm, key));
    const isKept = (each: Environment) => isWanted(each) || isUsed(each.key);
    const freed = await removeEnvironments(home, isKept, isUsed, isDry);
    if (!isDry) await cleanTemplates();
    return freed;
  }

  /**
   * False where SBX_ASSETS_DIR names a folder that other homes may share: homes
   * know nothing of each other's VMs.
   */
  get isOwn(): boolean {
    const { home } = this.#options;
    return home.assetsDir === join(home.dir, "assets");
  }

  #requireOwn(): void {
    if (this.isOwn) return;
    const { assetsDir } = this.#options.home;
    throw new SbxError(
      "image.shared",
      `${assetsDir} may hold images of other homes: SBX_ASSETS_DIR names it`,
      {
        hint: "run it without SBX_ASSETS_DIR, or remove files there yourself",
      },
    );
  }

  /** Paths that VMs, profiles or the machine started ahead need. */
  async #use(): Promise<(path: string) => boolean> {
    const { home, registry, bin, spareAssets } = this.#options;
    const pinned = [...await pinnedNames(home)].map((name) => join(home.assetsDir, name));
    const booted = registry.all().filter(hasMachine).flatMap(({ record }) => bootPaths(record));
    const used = new Set([...pinned, ...booted, ...await bin.assets(), ...spareAssets()]);
    return (path) => used.has(path);
  }

  async #profilesWithImage(): Promise<Set<string>> {
    const { home } = this.#options;
    const all = await Promise.all((await listProfiles(home)).map(async (listed) => {
      if ("error" in listed) return [];
      return await bootAssets(home, listed.profile, currentArch()).then(() => [listed.id], () => []);
    }));
    return new Set(all.flat());
  }
}

/** It boots it, can go back to it, or has a machine with a disk of it. */
function hasEnvironment(home: Home, vm: Vm, key: string): boolean {
  const { environment, before } = vm.record;
  return environment?.key === key || before?.key === key ||
    hasMachine(vm) && isOf(home, bootPaths(vm.record), key);
}

/** True for files of which one is an environment's. */
function isOf(home: Home, paths: string[], key: string): boolean {
  const dir = join(environmentsDir(home), key);
  return paths.some((path) => dirname(path) === dir);
}

/** A VM that is being started has no other sign of its machine yet. */
function hasMachine({ state, busy }: Vm): boolean {
  return busy !== undefined || isAlive(state) || state.state === "Suspended";
}
