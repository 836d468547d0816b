/** Names that a kernel has cached, asked of their file system again: for a folder that others change. Linux only. */
import type { PathHandle } from "./beneath.ts";
import { STAT_BYTES, STAT_MASK } from "./stat.ts";

const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const AT_STATX_FORCE_SYNC = 0x2000;
const MS_REMOUNT = 0x20n;
/** A file of another file system than any that is asked. */
const ELSEWHERE = "/proc/self/exe";

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    linkat: { parameters: ["i32", "buffer", "i32", "buffer", "i32"], result: "i32" },
    statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
    mount: { parameters: ["pointer", "buffer", "pointer", "usize", "pointer"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/**
 * Has the kernel look up a name of a folder, and read the folder's state, whatever it has cached of them. A link to a file of
 * another file system is never made, and the kernel finds that out after it has looked for the name as for a new one, for
 * which no cached answer counts.
 */
export function lookUpAgain(folder: PathHandle, name: string): void {
  libc ??= loadLibc();
  libc.symbols.linkat(AT_FDCWD, textOf(ELSEWHERE), folder.fd, textOf(name), 0);
  const flags = AT_EMPTY_PATH | AT_STATX_FORCE_SYNC;
  libc.symbols.statx(folder.fd, textOf(""), flags, STAT_MASK, new Uint8Array(STAT_BYTES));
}

/** Has the kernel drop the names that it has cached of the file system at a mount point, without changing how it is mounted. */
export function dropNames(mountPoint: string): void {
  libc ??= loadLibc();
  libc.symbols.mount(null, textOf(mountPoint), null, MS_REMOUNT, null);
}

function textOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}
