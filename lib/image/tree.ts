import { SbxError } from "../base/error/mod.ts";
import { run } from "./command.ts";
import { hasTool } from "./tool.ts";

/**
 * Removes a build's folder. What mmdebstrap left there after a kill belongs to root, and may have the host's /dev or
 * /proc mounted in it: nothing is removed through a mount.
 */
export async function removeTree(dir: string): Promise<void> {
  const mounts = await Deno.readTextFile("/proc/self/mountinfo").catch(() => "");
  if (mounts.split("\n").some((line) => line.split(" ")[4]?.startsWith(`${dir}/`))) {
    throw new SbxError(
      "image.cleanup_failed",
      `${dir} still has something mounted in it, and is left as it is`,
      {
        hint: `umount -R what findmnt shows below it, then remove it`,
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

/** A folder that was moved out of the way. */
export interface Aside {
  restore(): Promise<void>;
  forget(): Promise<void>;
}

/** Moves `dir`, if there is one, to a name beside it; `restore` puts it back over whatever is there then. */
export async function moveAside(dir: string): Promise<Aside> {
  const aside = `${dir}.${crypto.randomUUID()}.tmp`;
  const moved = await Deno.rename(dir, aside).then(() => true, (error) => {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  });
  const remove = (path: string) => Deno.remove(path, { recursive: true }).catch(() => {});
  return {
    async restore() {
      await remove(dir);
      if (moved) await Deno.rename(aside, dir);
    },
    async forget() {
      if (moved) await remove(aside);
    },
  };
}
