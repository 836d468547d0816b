/**
 * Open files and folders of a tree that another program changes at the same time, on this system: Linux's own calls, or POSIX's
 * alone on macOS.
 */
import { Folder as LinuxFolder } from "../libc/tree.ts";
import { Calls, DARWIN, PosixFolder } from "../posix/mod.ts";
import type { Folder } from "./handle.ts";

const MAC = new Calls(DARWIN);

/** Opens a folder of this program's own; links in its path are followed. */
export function openFolder(path: string): Folder {
  return Deno.build.os === "darwin" ? PosixFolder.open(MAC, path) : LinuxFolder.open(path);
}
