/** Copies of files and folders that share their blocks until one of them changes: clonefile(2) of macOS. */
import { cString } from "../libc/descriptor.ts";
import { DARWIN } from "./platform.ts";

/** Links are copied, not followed. */
const CLONE_NOFOLLOW = 1;

function load() {
  return Deno.dlopen(DARWIN.library, {
    clonefile: { parameters: ["buffer", "buffer", "u32"], result: "i32", nonblocking: true },
  });
}

let system: ReturnType<typeof load> | undefined;

/**
 * Clones a file, or a folder with all below it, to a path where nothing is.
 *
 * @returns false: the file system cannot, or this is no Mac; nothing is there then
 */
export async function cloneTree(from: string, to: string): Promise<boolean> {
  try {
    system ??= load();
  } catch {
    return false;
  }
  return await system.symbols.clonefile(cString(from), cString(to), CLONE_NOFOLLOW) === 0;
}
