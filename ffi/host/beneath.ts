/** Opens a path that cannot leave a folder, on this system: by openat2(2), or by steps on macOS. */
import { openBeneath as openBeneathOnLinux, OpenError } from "../libc/beneath.ts";
import { Calls, DARWIN, openBeneathBySteps } from "../posix/mod.ts";
import type { PathHandle } from "./handle.ts";

const MAC = new Calls(DARWIN);

export { OpenError };

/**
 * Opens `path` below `root`. Follows links that stay below it.
 *
 * @throws {OpenError} `EXDEV`: the path or a link in it leaves `root`
 */
export function openBeneath(root: string, path: string, { directory = false } = {}): PathHandle {
  return Deno.build.os === "darwin"
    ? openBeneathBySteps(MAC, root, path, directory)
    : openBeneathOnLinux(root, path, { directory });
}
