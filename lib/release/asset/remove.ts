/** Removes installed images, and files that no image boots any more. */
import { join } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { installedName, LOGICAL_NAMES, manifestNames } from "./name.ts";
import { changeAssets, readInstalled } from "./pair.ts";
import { installedImages } from "./resolve.ts";

/** Result of a removal. */
export interface Freed {
  /** names in the folder of assets */
  files: string[];
  /** on the disk, in `bytes` */
  bytes: number;
}

/** Installed names: a logical name with a part of its hash. */
const INSTALLED = new RegExp(
  `^(${
    LOGICAL_NAMES.map((name) => RegExp.escape(installedName(name, "HASH")).replace("HASH", "[0-9a-f]+")).join(
      "|",
    )
  })(\\.part)?$`,
);
/** Age in `ms` at which an interrupted download counts as abandoned: a week. */
const PART_MS = 7 * 24 * 3600 * 1000;

/**
 * Removes the image of a profile: first its manifest, so that no VM starts from the rest.
 *
 * @param isUsed whether a VM or a pin still needs the file at a path
 * @throws {SbxError} `image.not_found` (404)
 */
export async function removeImage(
  home: Home,
  profile: string,
  isUsed: (path: string) => boolean,
): Promise<Freed> {
  return await changeAssets(home, `removing the image of ${profile}`, async () => {
    const installed = await installedImages({ assetsDir: home.assetsDir });
    if (!installed.includes(profile)) {
      throw new SbxError("image.not_found", `no image of profile "${profile}" is installed`, {
        hint: didYouMean(profile, installed) ??
          "sbx image list shows the installed ones; profiles with the same packages share one",
      });
    }
    const needed = await namesOfCurrent(home, profile);
    const { manifest, origin } = manifestNames(profile);
    await Deno.remove(join(home.assetsDir, manifest));
    await ifFound(Deno.remove(join(home.assetsDir, origin)));
    return await prune(home, needed, isUsed);
  });
}

/**
 * Removes files that belong to no installed release, such as ones from before an update.
 *
 * @param isUsed as for {@linkcode removeImage}
 * @param ageMs files that were changed since stay, in `ms`
 * @param isDry only says which would go
 */
export async function pruneAssets(
  home: Home,
  isUsed: (path: string) => boolean,
  ageMs = 0,
  isDry = false,
): Promise<Freed> {
  return await changeAssets(
    home,
    "removing old VM assets",
    async () => await prune(home, await namesOfCurrent(home), isUsed, ageMs, isDry),
  );
}

async function prune(
  home: Home,
  needed: Set<string>,
  isUsed: (path: string) => boolean,
  ageMs = 0,
  isDry = false,
): Promise<Freed> {
  const freed: Freed = { files: [], bytes: 0 };
  for await (const { name, isFile } of Deno.readDir(home.assetsDir)) {
    const path = join(home.assetsDir, name);
    if (!isFile || !INSTALLED.test(name) || needed.has(name) || isUsed(path)) continue;
    const { blocks, size, ctime } = await Deno.lstat(path);
    const age = Date.now() - ctime!.getTime();
    if (age < (name.endsWith(".part") ? Math.max(ageMs, PART_MS) : ageMs)) continue;
    if (!isDry) await Deno.remove(path);
    freed.files.push(name);
    freed.bytes += blocks === null ? size : blocks * 512;
  }
  freed.files.sort();
  return freed;
}

/**
 * Installed names of the current release of each image but one, for all architectures.
 *
 * @throws {SbxError} a manifest is damaged
 */
async function namesOfCurrent(home: Home, except?: string): Promise<Set<string>> {
  // A package's files for all users are neither removed nor needed here.
  const own = await installedImages({ assetsDir: home.assetsDir });
  const profiles = own.filter((profile) => profile !== except);
  const names = await Promise.all(profiles.map(async (profile) => {
    const { manifest } = await readInstalled(home.assetsDir, profile);
    const { current, releases } = manifest.assets;
    return Object.values(releases[current].arches).flatMap((files) =>
      Object.entries(files).map(([name, { hash }]) => installedName(name, hash))
    );
  }));
  return new Set(names.flat());
}
