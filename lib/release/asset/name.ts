import { parse } from "node:path";
import { asSbxError, SbxError } from "../../base/error/mod.ts";

/** Logical names of the files of one architecture (docs/design/contracts/10-release.md §10). */
export const KERNEL = "vmlinuz", INITRD = "initrd.img", ROOTFS = "rootfs.erofs", OBOM = "obom.cdx.json";
/**
 * The programs of sbx in a guest, apart from the root file system; images of
 * older versions have them in that.
 */
export const LAYER = "layer.erofs";
/** Every logical name, in display order. */
export const LOGICAL_NAMES = [KERNEL, INITRD, ROOTFS, LAYER, OBOM];
/** Logical names of the files a VM needs to boot, with every image. */
export const BOOT_NAMES = [KERNEL, INITRD, ROOTFS];
/** Names of the manifest, the record of its origin, and the checksum file. */
export const MANIFEST = "manifest.json", MANIFEST_ORIGIN = "manifest-origin.json", B3SUMS = "B3SUMS";

/**
 * Profile whose image has the plain names of manifest and origin; VMs boot it when
 * their profile names no packages.
 */
export const DEFAULT_IMAGE = "code";

/** Names of an image's installed manifest and of the record of its origin. */
export function manifestNames(profile = DEFAULT_IMAGE): { manifest: string; origin: string } {
  const prefix = profile === DEFAULT_IMAGE ? "" : `${profile}.`;
  return { manifest: `${prefix}${MANIFEST}`, origin: `${prefix}${MANIFEST_ORIGIN}` };
}

/** Characters of the hash in an installed file's name (docs/design/contracts/10-release.md §10). */
const NAME_HASH_LENGTH = 16;

/** Name of an installed file: `rootfs-<first 16 of hash>.erofs` for `rootfs.erofs`. */
export function installedName(logicalName: string, hash: string): string {
  const { name, ext } = parse(logicalName);
  return `${name}-${hash.slice(0, NAME_HASH_LENGTH)}${ext}`;
}

/**
 * Names of a published file relative to its manifest: arch-prefixed (docs/design/contracts/10-release.md
 * §10), or as built.
 */
export function publishedNames(arch: string, logicalName: string): string[] {
  return [`${arch}-${logicalName}`, `${arch}/${logicalName}`];
}

/** Descriptions of operating system errors. */
const REASONS: [new () => Error, string][] = [
  [Deno.errors.PermissionDenied, "permission denied"],
  [Deno.errors.NotFound, "no such file or folder"],
  [Deno.errors.AlreadyExists, "a file or folder of that name exists"],
  [Deno.errors.NotADirectory, "part of the path is not a folder"],
  [Deno.errors.IsADirectory, "it is a folder"],
];

/**
 * Converts an error of a file or folder named by the user to `file.invalid`; keeps a full disk and sbx's own
 * errors.
 */
export function fileError(error: unknown, doing: string): SbxError {
  const reason = REASONS.find(([kind]) => error instanceof kind)?.[1];
  if (!reason) return asSbxError(error, doing);
  return new SbxError("file.invalid", `${doing} failed: ${reason}`, {
    cause: error,
    hint: "check the path and its permissions",
  });
}
