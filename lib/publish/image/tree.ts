import { SbxError } from "../../base/error/mod.ts";
import { run } from "./command.ts";
import { hasTool } from "./tool.ts";

/**
 * Removes a build's folder. After a kill, files of mmdebstrap there belong to root and may contain mounts of
 * the host's /dev or /proc: nothing is removed through a mount.
 */
export async function removeTree(dir: string): Promise<void> {
  const mounts = await Deno.readTextFile("/proc/self/mountinfo").catch(() => "");
  if (mounts.split("\n").some((line) => line.split(" ")[4]?.startsWith(`${dir}/`))) {
    throw new SbxError(
      "image.cleanup_failed",
      `${dir} was not removed: it still contains mounts`,
      {
        hint: `unmount what findmnt shows below it (umount -R), then remove it`,
      },
    );
  }
  try {
    await Deno.remove(dir, { recursive: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    if (!(error instanceof Deno.errors.PermissionDenied) || !await hasTool("sudo")) throw error;
    await run(["sudo", "rm", "-rf", "--one-file-system", dir], { doing: `removing ${dir}` });
  }
}

/** A folder moved out of the way. */
export interface MovedFolder {
  /** replaces the current content of the folder's path with the old folder */
  restore(): Promise<void>;
  /** removes the old folder */
  discard(): Promise<void>;
}

/** Moves `dir`, if it exists, to a name beside it. */
export async function moveAside(dir: string): Promise<MovedFolder> {
  const aside = `${dir}.${crypto.randomUUID()}.tmp`;
  const isMoved = await Deno.rename(dir, aside).then(() => true, (error) => {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  });
  const remove = (path: string) => Deno.remove(path, { recursive: true }).catch(() => {});
  return {
    async restore() {
      await remove(dir);
      if (isMoved) await Deno.rename(aside, dir);
    },
    async discard() {
      if (isMoved) await remove(aside);
    },
  };
}
