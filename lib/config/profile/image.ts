import type { Arch } from "../../base/arch/mod.ts";
import {
  type Assets,
  DEFAULT_IMAGE,
  type ImagePackages,
  installedImage,
  installedImages,
  resolveAssets,
} from "../../release/asset/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type { Profile } from "./profile.ts";

/**
 * Resolves the installed image of a profile: its own, or that of another profile with the same packages. A
 * profile that names no packages boots the default image, and so does every profile while that image does not
 * state its contents.
 *
 * @throws {SbxError} `image.missing` (412): no installed image has the profile's packages; `image.mismatch`
 * (412): its own has others; `assets.missing` (412)
 */
export async function imageAssets(home: Home, profile: Profile, arch: Arch): Promise<Assets> {
  const { id, packages } = profile;
  const installed = await installedImages(home);
  const own = installed.includes(id) ? await installedImage(home, id) : undefined;
  if (own && isSame(own.packages, packages)) return await resolveAssets(home, arch, id);
  const hasPackages = packages.apt.length + packages.npm.length > 0;
  const general = hasPackages && installed.includes(DEFAULT_IMAGE)
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

function wordsOf({ suite, apt, npm, bin }: ImagePackages): string[] {
  const programs = Object.entries(bin).map(([name, path]) => `bin:${name}=${path}`);
  return [`suite:${suite}`, ...apt, ...npm.map((name) => `npm:${name}`), ...programs];
}
