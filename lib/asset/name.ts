import { parse } from "node:path";

/** Logical names of one architecture's files (contracts.md §10). */
export const KERNEL = "vmlinuz", INITRD = "initrd.img", ROOTFS = "rootfs.erofs", OBOM = "obom.cdx.json";
/** Every logical name, in the order that they are shown in. */
export const LOGICAL_NAMES = [KERNEL, INITRD, ROOTFS, OBOM];
/** What a VM cannot boot without. */
export const BOOT_NAMES = [KERNEL, INITRD, ROOTFS];
/** Name of the manifest, and of the record of where it came from. */
export const MANIFEST = "manifest.json", MANIFEST_ORIGIN = "manifest-origin.json", B3SUMS = "B3SUMS";

/** Characters of the hash that an installed file's name carries (contracts.md §10). */
const NAME_HASH_LENGTH = 16;

/** `rootfs.erofs` of one hash is installed as `rootfs-<first 16 of hash>.erofs`. */
export function installedName(logicalName: string, hash: string): string {
  const { name, ext } = parse(logicalName);
  return `${name}-${hash.slice(0, NAME_HASH_LENGTH)}${ext}`;
}

/** Where a published file may be, relative to its manifest: arch-prefixed (spec.md, "Release graph"), or as built. */
export function publishedNames(arch: string, logicalName: string): string[] {
  return [`${arch}-${logicalName}`, `${arch}/${logicalName}`];
}
