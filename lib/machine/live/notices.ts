/** Tests whether the kernel of this machine reports every change of a folder. */

/** File systems that no other machine and no program in user space changes. */
const LOCAL = new Set([
  "bcachefs",
  "btrfs",
  "ext2",
  "ext3",
  "ext4",
  "f2fs",
  "overlay",
  "tmpfs",
  "xfs",
  "zfs",
]);

/**
 * True where the folder, and all that is mounted below it, is of this machine alone: changes that are made
 * elsewhere, as on NFS, are no notice here.
 *
 * @param mountinfo text of mountinfo(5)
 */
export function isOfThisMachine(folder: string, mountinfo: string): boolean {
  const mounts = mountinfo.split("\n").filter(Boolean).map((line) => {
    const words = line.split(" ");
    return { point: unescape(words[4]), type: words[words.indexOf("-") + 1] };
  });
  const own = mounts.reduce<typeof mounts[0] | undefined>(
    (best, mount) =>
      isBelow(folder, mount.point) && mount.point.length >= (best?.point.length ?? 0) ? mount : best,
    undefined,
  );
  const below = mounts.filter(({ point }) => point !== folder && isBelow(point, folder));
  return own !== undefined && [own, ...below].every(({ type }) => LOCAL.has(type));
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}

function unescape(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits) => String.fromCharCode(parseInt(digits, 8)));
}
