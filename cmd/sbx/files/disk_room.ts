import { statfs } from "node:fs/promises";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";

/**
 * Room that a copy leaves on its disk, in `bytes` (docs/design/contracts/14-limits.md §14): VMs that cannot
 * write their record stop.
 */
const KEPT_BYTES = 128 * 1024 * 1024;

/**
 * Checks that a copy fits on the disk of a folder before it begins.
 *
 * @param needed `bytes` that the source takes on its disk, without holes
 * @throws {SbxError} `disk.full`
 */
export async function requireRoom(folder: string, path: string, needed: number): Promise<void> {
  const room = await statfs(folder).then(({ bavail, bsize }) => bavail * bsize - KEPT_BYTES, () => Infinity);
  if (needed <= room) return;
  throw new SbxError(
    "disk.full",
    `"${plain(path)}" has ${formatBytes(needed)}, and there is room for ${
      formatBytes(Math.max(0, room))
    } in ${folder}`,
    { hint: "free some space, or copy to another disk" },
  );
}
