/** Room on disks. */
import { statfs } from "node:fs/promises";
import { join } from "node:path";

/** `bytes` that this user may still write to the disk of a folder. */
export async function freeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}

/** Bytes of one block of `stat` (POSIX). */
const BLOCK = 512;

/** Files that were counted, by device and inode: a file of several names takes its room once. */
export type Counted = Set<string>;

/**
 * `bytes` that a file or folder takes on disk: blocks, so that holes of sparse files take none, and each inode once. Links are
 * not followed. Unreadable folders count nothing.
 *
 * @param counted files of earlier calls, which count nothing again
 */
export async function diskUse(path: string, counted: Counted = new Set()): Promise<number> {
  const info = await Deno.lstat(path).catch(() => undefined);
  if (!info) return 0;
  const inode = `${info.dev} ${info.ino}`;
  if (counted.has(inode)) return 0;
  counted.add(inode);
  let bytes = (info.blocks ?? 0) * BLOCK;
  if (!info.isDirectory) return bytes;
  try {
    for await (const { name } of Deno.readDir(path)) bytes += await diskUse(join(path, name), counted);
  } catch {
    // Removed meanwhile, or of another user.
  }
  return bytes;
}
