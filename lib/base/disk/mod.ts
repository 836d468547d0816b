/** Room on disks. */
import { statfs } from "node:fs/promises";

/** `bytes` that this user may still write to the disk of a folder. */
export async function freeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
