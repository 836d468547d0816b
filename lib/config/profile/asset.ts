/** The boot files of a profile's VMs: pinned by it, or from an installed image with its packages. */
import type { Arch } from "../../base/arch/mod.ts";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type AssetFile,
  type Assets,
  DEFAULT_IMAGE,
  type ImagePackages,
  installedImage,
  installedImages,
  installedName,
  resolveAssets,
} from "../../release/asset/mod.ts";
import {
  type Environment,
  environmentFiles,
  findEnvironment,
  getEnvironment,
  parseReference,
} from "../../release/environment/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { listProfiles } from "./load.ts";
import { recordedPackages } from "./packages.ts";
import { hasAny, type Profile } from "./profile.ts";
import type { Asset } from "./schema.ts";

/**
 * Resolves the boot files of a profile's VMs: the files it pins, or the installed ones if it pins none.
 * {@linkcode verifyAssets} hashes them.
 *
 * @param environment whose root file system replaces theirs
 * @throws {SbxError} `assets.missing`, `image.missing`, `image.mismatch`, `environment.no_layer` (412)
 */
export async function bootAssets(
  home: Home,
  profile: Profile,
  arch: Arch,
  environment?: Environment,
): Promise<Assets> {
  const assets = await ownAssets(home, profile, arch);
  if (!environment) return assets;
  if (assets.layer) return { ...assets, ...environmentFiles(home, environment) };
  throw new SbxError(
    "environment.no_layer",
    `${assets.version} of "${profile.id}" boots no other root file system`,
    {
      hint: "it was built by an older sbx: sbx image build code, or sbx update --assets --manifest URL",
    },
  );
}

/** An environment that a VM is made with: an image that a person names, or the key of the one that it has. */
export interface EnvironmentRequest {
  image?: string;
  environment?: string;
}

/**
 * The environment of a VM: the one that it was made with, else the image that is
 * asked for, else its profile's.
 *
 * @returns undefined: it boots the image of a profile's packages
 * @throws {SbxError} `image.missing` (412): this home does not have it
 */
export async function environmentOf(
  home: Home,
  profile: Profile,
  arch: Arch,
  { image, environment: key }: EnvironmentRequest,
): Promise<Environment | undefined> {
  const reference = image ?? imageReference(profile);
  if (key === undefined && reference === undefined) return undefined;
  const canonical = reference && parseReference(reference).canonical;
  const found = key === undefined
    ? await findEnvironment(home, canonical!, arch)
    : await getEnvironment(home, key);
  // Its record has the name that led to it first; corp may allow another one, with the same digest.
  const asked = key === undefined || image !== undefined ? canonical : undefined;
  if (found) return { ...found, reference: asked ?? found.reference };
  throw new SbxError("image.missing", `this home does not have the image ${canonical ?? key} for ${arch}`, {
    hint: image === undefined && hasPackagesOnTop(profile)
      ? `build it: sbx image build ${profile.id}`
      : `pull it: sbx image pull ${reference ?? "REFERENCE"}`,
  });
}

/** True for a profile with packages on top of its OCI image, which a build makes. */
export function hasPackagesOnTop({ image }: Pick<Profile, "image">): boolean {
  return image !== undefined && image.apt.length + image.npm.length > 0;
}

/**
 * Name of the OCI image of a profile's VMs: the one that it names, or the one that is built of it, whose name
 * changes with the packages. `undefined`: its VMs boot an image of packages alone.
 */
export function imageReference(profile: Pick<Profile, "id" | "image">): string | undefined {
  const { id, image } = profile;
  if (!image || !hasPackagesOnTop(profile)) return image?.from;
  const inputs = [parseReference(image.from).canonical, image.apt.toSorted(), image.npm.toSorted()];
  return `localhost/profile:${blake3(JSON.stringify(inputs)).slice(0, 16)}-${id}`;
}

async function ownAssets(home: Home, profile: Profile, arch: Arch): Promise<Assets> {
  if (!profile.assets) return await imageAssets(home, profile, arch);
  const pins = profile.assets.arch[arch];
  if (!pins) {
    throw new SbxError("assets.missing", `profile "${profile.id}" has no assets for ${arch}`, {
      hint: `add [assets.arch.${arch}] to ${
        profile.path ?? "it"
      }, or remove [assets] to use the installed ones`,
    });
  }
  const [kernel, initrd, rootfs, layer] = await Promise.all(
    bootPins(pins).map((pin) => requiredFile(home, profile, pin)),
  );
  const version = `${profile.id} ${profile.revision}`;
  return { version, arch, kernel, initrd, rootfs, ...(layer && { layer }) };
}

/** Locates a pinned file: among the installed files by hash, else at its `file:` address. */
export async function pinnedFile(home: Home, { name, url, hash: pin, size }: Asset): Promise<AssetFile> {
  const hash = bareHash(pin);
  const own = join(home.assetsDir, installedName(name, hash));
  const shared = home.sharedAssetsDir && join(home.sharedAssetsDir, installedName(name, hash));
  const installed = shared && !await isFile(own) && await isFile(shared) ? shared : own;
  const path = !url.startsWith("file:") || await isFile(installed) ? installed : fileURLToPath(url);
  return { name, path, hash, size };
}

/**
 * Installed names of the files that profiles pin, for every architecture. An unreadable profile's names are
 * unknown.
 *
 * @throws {SbxError} that profile's error
 */
export async function pinnedNames(home: Home): Promise<Set<string>> {
  const pins = (await listProfiles(home)).flatMap((listed) => {
    if ("error" in listed) throw listed.error;
    const { assets, obom } = listed.profile;
    return [
      ...Object.values(assets?.arch ?? {}).flatMap(bootPins),
      ...Object.values(obom?.arch ?? {}),
    ];
  });
  return new Set(pins.map(({ name, hash }) => installedName(name, bareHash(hash))));
}

function bootPins(
  { kernel, initrd, rootfs, layer }: Record<"kernel" | "initrd" | "rootfs", Asset> & { layer?: Asset },
) {
  return [kernel, initrd, rootfs, ...layer ? [layer] : []];
}

function bareHash(pin: string): string {
  return pin.slice("blake3:".length);
}

async function requiredFile(home: Home, profile: Profile, pin: Asset): Promise<AssetFile> {
  const file = await pinnedFile(home, pin);
  if (await isFile(file.path)) return file;
  throw new SbxError(
    "assets.missing",
    `${pin.name}, a boot file of profile "${profile.id}", is missing`,
    {
      hint: URL.canParse(pin.url)
        ? `fetch it from ${pin.url}: sbx update pins ${profile.id}`
        : `install the profile again: sbx update profiles ${profile.id}`,
    },
  );
}

async function isFile(path: string): Promise<boolean> {
  return (await Deno.stat(path).catch(() => null))?.isFile ?? false;
}

/**
 * Resolves the installed image of a profile: its own, or that of another profile with the same packages. A
 * profile that names no packages boots the default image, and so does every profile while that image does not
 * state its contents.
 *
 * @throws {SbxError} `image.missing` (412): no installed image has the profile's packages; `image.mismatch`
 * (412): its own has others; `assets.missing` (412)
 */
export async function imageAssets(home: Home, profile: Profile, arch: Arch): Promise<Assets> {
  const { id } = profile;
  const packages = recordedPackages(profile.packages);
  const installed = await installedImages(home);
  const own = installed.includes(id) ? await installedImage(home, id) : undefined;
  if (own && isSame(own.packages, packages)) return await resolveAssets(home, arch, id);
  const general = hasAny(profile.packages) && installed.includes(DEFAULT_IMAGE)
    ? await installedImage(home, DEFAULT_IMAGE)
    : undefined;
  if (!general || isSame(general.packages, packages)) return await resolveAssets(home, arch);
  for (const other of installed) {
    const image = await installedImage(home, other).catch(() => undefined);
    if (image && isSame(image.packages, packages)) return await resolveAssets(home, arch, other);
  }
  const hint = `build it: sbx image build ${id}`;
  if (!own) throw new SbxError("image.missing", `there is no image for profile "${id}" yet`, { hint });
  const difference = describe(own.packages, packages);
  throw new SbxError(
    "image.mismatch",
    `the image of profile "${id}" does not have the packages that the profile names now: ${difference}`,
    { hint },
  );
}

/** Tests whether two lists of packages make the same image; their order does not matter. */
function isSame(a: ImagePackages, b: ImagePackages): boolean {
  return describe(a, b) === "";
}

/** Differences from one list to another, such as `+jq -curl`. */
function describe(from: ImagePackages, to: ImagePackages): string {
  const [before, after] = [from, to].map((packages) => new Set(wordsOf(packages)));
  return [
    ...[...after.difference(before)].map((word) => `+${word}`),
    ...[...before.difference(after)].map((word) => `-${word}`),
  ].join(" ");
}

function wordsOf({ suite, apt, npm, bin, added = [] }: ImagePackages): string[] {
  const programs = Object.entries(bin).map(([name, path]) => `bin:${name}=${path}`);
  return [`suite:${suite}`, ...apt, ...npm.map((name) => `npm:${name}`), ...programs, ...added];
}
