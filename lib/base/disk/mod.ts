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

/** Room that files take, and their last change. */
export interface Measure {
  /** blocks on disk */
  bytes: number;
  /** the newest change of any of them, in ms since the epoch; 0 without files */
  changed: number;
}

/**
 * `bytes` that a file or folder takes on disk, as of {@linkcode measure}.
 *
 * @param counted files of earlier calls, which count nothing again
 */
export async function diskUse(path: string, counted: Counted = new Set()): Promise<number> {
  return (await measure(path, counted)).bytes;
}

/**
 * Measures a file or folder: blocks, so that holes of sparse files take none, and each inode once. Links are
 * not followed. Unreadable folders count nothing.
 *
 * @param counted files of earlier calls, which count nothing again
 */
export async function measure(path: string, counted: Counted = new Set()): Promise<Measure> {
  const total: Measure = { bytes: 0, changed: 0 };
  const paths = [path];
  for (let next = paths.pop(); next !== undefined; next = paths.pop()) {
    const at = next;
    const info = await Deno.lstat(at).catch(() => undefined);
    if (!info) continue;
    const inode = `${info.dev} ${info.ino}`;
    if (counted.has(inode)) continue;
    counted.add(inode);
    total.bytes += (info.blocks ?? 0) * BLOCK;
    total.changed = Math.max(total.changed, info.mtime?.getTime() ?? 0);
    if (!info.isDirectory) continue;
    try {
      for await (const { name } of Deno.readDir(at)) paths.push(join(at, name));
    } catch {
      // Removed meanwhile, or of another user.
    }
  }
  return total;
}
