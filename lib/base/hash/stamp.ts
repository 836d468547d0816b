import { stat } from "node:fs/promises";

/**
 * Identity of a file's content without reading it: any write changes it, also one that puts the times back, since the
 * time of change is the kernel's own.
 *
 * @throws {Error} with `code` "ENOENT" where there is no file
 */
export async function fileStamp(path: string): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
  return [dev, ino, size, mtimeNs, ctimeNs].join(":");
}
