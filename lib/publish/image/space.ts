import { freeBytes } from "../../base/disk/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { formatBytes } from "../../base/progress/mod.ts";

/** Peak disk use of a build, in `bytes`: packages, their tree, and the image, with half as much to spare. */
const BUILD_BYTES = 2.5e9;

/** @throws {SbxError} `disk.full`: `dir` has too little free space for a build */
export async function requireSpace(dir: string, needed = BUILD_BYTES): Promise<void> {
  const free = await freeBytes(dir);
  if (free >= needed) return;
  throw new SbxError(
    "disk.full",
    `${dir} has ${formatBytes(free)} free, and an image build needs ${formatBytes(needed)}`,
    { hint: "free some space, or give another output folder" },
  );
}
