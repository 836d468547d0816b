import { type Arch, type AssetFile, currentArch, verifyFile } from "../asset/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { pinnedFile } from "./asset.ts";
import { imageAssets } from "./image.ts";
import type { Profile } from "./profile.ts";
import type { Obom } from "./schema.ts";

/** Largest OBOM read into memory for its descriptor, in `bytes`. */
const OBOM_LIMIT = 64 * 1024 * 1024;

/** OBOM with its file on this host. */
interface LocatedObom {
  descriptor: Obom;
  file: AssetFile;
}

/**
 * Descriptor of a profile's OBOM for one architecture: the profile's own, or that of the installed assets if
 * the profile boots from them. `undefined` if there is none.
 */
export async function obomDescriptor(
  home: Home,
  profile: Profile,
  arch: Arch = currentArch(),
): Promise<Obom | undefined> {
  return (await locate(home, profile, arch))?.descriptor;
}

/**
 * Reads an OBOM after verifying its size and BLAKE3.
 *
 * @throws {SbxError} `obom.not_found` (404), `assets.mismatch` (412), `assets.missing` (412)
 */
export async function readObom(
  home: Home,
  profile: Profile,
  arch: Arch = currentArch(),
): Promise<Uint8Array<ArrayBuffer>> {
  const file = await findFile(home, profile, arch);
  if (!file) {
    throw new SbxError("obom.not_found", `profile "${profile.id}" has no OBOM for ${arch}`, {
      hint: "sbx profile info shows the OBOM of a profile",
    });
  }
  await verifyFile(file);
  return await Deno.readFile(file.path);
}

/** The OBOM's file, described or not: one that cannot be read is damaged, and not absent. */
async function findFile(home: Home, profile: Profile, arch: Arch): Promise<AssetFile | undefined> {
  const pin = profile.obom?.arch[arch];
  if (pin) return await pinnedFile(home, pin);
  return profile.assets ? undefined : (await imageAssets(home, profile, arch)).obom;
}

async function locate(home: Home, profile: Profile, arch: Arch): Promise<LocatedObom | undefined> {
  const pin = profile.obom?.arch[arch];
  if (pin) return { descriptor: pin, file: await pinnedFile(home, pin) };
  if (profile.assets) return undefined;
  const assets = await imageAssets(home, profile, arch).catch(() => undefined);
  return assets?.obom && await describeInstalled(assets.obom, assets.rootfs);
}

/** Describes an installed OBOM by its own metadata; `undefined` when it cannot be read. */
async function describeInstalled(file: AssetFile, rootfs: AssetFile): Promise<LocatedObom | undefined> {
  if (file.size > OBOM_LIMIT) return undefined;
  try {
    const { metadata } = JSON.parse(await Deno.readTextFile(file.path));
    const { name: generator, version: generator_version } = metadata.tools.components[0];
    const { name, path, hash, size } = file;
    const descriptor = {
      name,
      url: `file://${path}`,
      hash: `blake3:${hash}`,
      size,
      generator: String(generator),
      generator_version: String(generator_version),
      rootfs_hash: `blake3:${rootfs.hash}`,
    };
    return { descriptor, file };
  } catch {
    return undefined;
  }
}
