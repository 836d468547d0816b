import type { Arch } from "../../base/arch/mod.ts";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AssetFile, type Assets, installedName } from "../../release/asset/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { imageAssets } from "./image.ts";
import { listProfiles } from "./list.ts";
import type { Profile } from "./profile.ts";
import type { Asset } from "./schema.ts";

/**
 * Resolves the boot files of a profile's VMs: the files it pins, or the installed ones if it pins none.
 * {@linkcode verifyAssets} hashes them.
 *
 * @throws {SbxError} `assets.missing`, `image.missing`, `image.mismatch` (412)
 */
export async function bootAssets(home: Home, profile: Profile, arch: Arch): Promise<Assets> {
  if (!profile.assets) return await imageAssets(home, profile, arch);
  const pins = profile.assets.arch[arch];
  if (!pins) {
    throw new SbxError("assets.missing", `profile "${profile.id}" has no assets for ${arch}`, {
      hint: `add [assets.arch.${arch}] to ${
        profile.path ?? "it"
      }, or remove [assets] to use the installed ones`,
    });
  }
  const [kernel, initrd, rootfs] = await Promise.all(
    [pins.kernel, pins.initrd, pins.rootfs].map((pin) => requiredFile(home, profile, pin)),
  );
  return { version: `${profile.id} ${profile.revision}`, arch, kernel, initrd, rootfs };
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
      ...Object.values(assets?.arch ?? {}).flatMap(({ kernel, initrd, rootfs }) => [kernel, initrd, rootfs]),
      ...Object.values(obom?.arch ?? {}),
    ];
  });
  return new Set(pins.map(({ name, hash }) => installedName(name, bareHash(hash))));
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
