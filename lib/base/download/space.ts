import { statfs } from "node:fs/promises";
import { SbxError } from "../error/mod.ts";
import { formatBytes } from "../progress/mod.ts";

/**
 * Refuses downloads that the disk has no room for, before the first byte: also a manifest's files with sizes
 * beyond any disk.
 *
 * @param bytes of all files together
 * @throws {SbxError} `disk.full`
 */
export async function requireRoom(dir: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(dir);
  if (bavail * bsize >= bytes) return;
  throw new SbxError(
    "disk.full",
    `${dir} has ${formatBytes(bavail * bsize)} free, and the download needs ${formatBytes(bytes)}`,
    { hint: "free some space, or remove old files with sbx image prune; what is installed is unchanged" },
  );
}
