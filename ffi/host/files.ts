/** Files and folders on this system: by Linux's own calls, or by POSIX's alone on macOS. */
import { Folder as LinuxFolder } from "../libc/tree.ts";
import { Calls, DARWIN, openBeneathBySteps, PosixFolder, readNamesOf } from "../posix/mod.ts";
import type { Folder, PathHandle } from "./handle.ts";
import { openBeneath as openBeneathOnLinux, OpenError } from "../libc/beneath.ts";
import { readNames as readNamesOnLinux } from "../libc/directory.ts";

export { OpenError };

const MAC = new Calls(DARWIN);

/** Opens a folder of this program's own; links in its path are followed. */
export function openFolder(path: string): Folder {
  return Deno.build.os === "darwin" ? PosixFolder.open(MAC, path) : LinuxFolder.open(path);
}

/**
 * Yields the names in a folder, without `.` and `..`, in no order.
 * @throws {Error} the folder cannot be read
 */
export function readNames(path: string): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  return Deno.build.os === "darwin" ? readNamesOf(MAC, path) : readNamesOnLinux(path);
}

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
