import { statfs } from "node:fs/promises";
import { SbxError } from "../base/error/mod.ts";
import { bytes } from "../base/progress/mod.ts";

/** What a build takes at its fullest: packages, their tree, and the image made of it, with half as much to spare. */
const BUILD_BYTES = 1.5e9;

/** @throws {SbxError} `disk.full` when a build in `dir` could not end well */
export async function requireSpace(dir: string, needed = BUILD_BYTES): Promise<void> {
  const { bavail, bsize } = await statfs(dir);
  if (bavail * bsize >= needed) return;
  throw new SbxError(
    "disk.full",
    `${dir} has ${bytes(bavail * bsize)} free, and an image build needs ${bytes(needed)}`,
    { hint: "free some space, or give another folder for OUT" },
  );
}
