import { SbxError } from "../../base/error/mod.ts";
import { checkToml, type TomlDocument } from "../../base/toml/mod.ts";
import { isCompatible, isSemVer } from "../../base/semver/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { ProfileOverlay } from "./overlay.ts";
import { addedLines, type Packages, withEngines } from "./packages.ts";
import { ProfileFile } from "./schema.ts";

/** Contract of a VM: its resources and its permissions (docs/design/contracts/04-profiles.md §4). */
export interface Profile extends Omit<ProfileFile, "profiles" | "packages" | "image"> {
  packages: Packages;
  /** OCI image that is the root file system, with the packages on top of it; `packages` has none then */
  image?: { from: string } & Pick<Packages, "apt" | "npm">;
  /** `[profiles.rules.<id>]` by id */
  rules: ProfileFile["profiles"]["rules"];
  /** of a built-in profile: the rules that the person has added to it */
  overlay?: ProfileOverlay;
  /** this sbx is at least `min_sbx_version` */
  compatible: boolean;
  source: "builtin" | "user";
  /** path of the profile.toml; absent for a built-in profile */
  path?: string;
  /** source document, with the line of each key */
  document: TomlDocument;
}

/** Origin of a profile's text. */
export interface ProfileOrigin {
  id: string;
  source: Profile["source"];
  path?: string;
}

/**
 * Parses a profile.toml.
 *
 * @throws {SbxError} `profile.invalid`: names file, line and path of every problem
 */
export function parseProfile(document: TomlDocument, { id, source, path }: ProfileOrigin): Profile {
  const { profiles, image, ...file } = checkToml(document, ProfileFile, "profile.invalid");
  if (file.id !== id) {
    throw new SbxError(
      "profile.invalid",
      `${document.placeOf(["id"])}: id: "${file.id}" is not the name of its folder, "${id}"`,
      { hint: "rename the folder or change the id, so that both are the same" },
    );
  }
  const named = withEngines(file.packages);
  if (image && (file.assets !== undefined || Object.keys(named.bin).length + addedLines(named).length > 0)) {
    throw new SbxError(
      "profile.invalid",
      `${
        document.placeOf(["image"])
      }: [image] cannot be combined with [assets], or with packages other than apt and npm`,
      { hint: "leave them out: the image is the whole root file system, with apt and npm packages on top" },
    );
  }
  const { apt, npm } = named;
  return {
    ...file,
    packages: image ? { ...named, apt: [], npm: [] } : named,
    rules: profiles.rules,
    compatible: isCompatible(file.min_sbx_version),
    source,
    ...(path && { path }),
    ...(image && { image: { ...image, apt, npm } }),
    document,
  };
}

/** Tests whether a profile's image has more than Debian's base. */
export function hasAny(packages: Packages): boolean {
  return packages.apt.length + packages.npm.length + addedLines(packages).length > 0;
}

/**
 * Refuses a profile that needs a newer sbx, or has an invalid `min_sbx_version`.
 *
 * @throws {SbxError} `profile.incompatible`
 */
export function requireCompatible(profile: Profile): void {
  if (profile.compatible) return;
  const { id, revision, document: { path: file } } = profile;
  const minimum = profile.min_sbx_version!;
  if (!isSemVer(minimum)) {
    throw new SbxError(
      "profile.incompatible",
      `profile "${id}" ${revision} is for no version of sbx: its min_sbx_version is ${
        JSON.stringify(minimum)
      }`,
      { hint: `write a version such as ${VERSION} into ${file}, or remove min_sbx_version` },
    );
  }
  throw new SbxError(
    "profile.incompatible",
    `profile "${id}" ${revision} needs sbx ${minimum} or newer; this is sbx ${VERSION}`,
    { hint: "update sbx: sbx update" },
  );
}
