/**
 * Names that a kernel has cached, asked of their file system again: for a folder
 * that others change. Linux only.
 */
import type { PathHandle } from "./beneath.ts";
import { STAT_BYTES, STAT_MASK } from "./stat.ts";

const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const AT_STATX_FORCE_SYNC = 0x2000;
const MS_REMOUNT = 0x20n;
/**
 * Flags that a new mount of a place would lose: ro, nosuid, nodev, noexec.
 * statfs(2) and mount(2) have the same.
 */
const MOUNT_FLAGS = 0xfn;
/** `struct statfs` of 64-bit machines, in `bytes`. */
const STATFS_BYTES = 120, STATFS_FLAGS = 80;
/** A file of another file system than any that is asked. */
const ELSEWHERE = "/proc/self/exe";

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    linkat: { parameters: ["i32", "buffer", "i32", "buffer", "i32"], result: "i32" },
    statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
    statfs: { parameters: ["buffer", "buffer"], result: "i32" },
    mount: { parameters: ["pointer", "buffer", "pointer", "usize", "pointer"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/**
 * Has the kernel look up a name of a folder, and read the folder's state, whatever it has cached of them. A
 * link to a file of another file system is never made, and the kernel finds that out after it has looked for
 * the name as for a new one, for which no cached answer counts.
 */
export function lookUpAgain(folder: PathHandle, name: string): void {
  libc ??= loadLibc();
  libc.symbols.linkat(AT_FDCWD, textOf(ELSEWHERE), folder.fd, textOf(name), 0);
  const flags = AT_EMPTY_PATH | AT_STATX_FORCE_SYNC;
  libc.symbols.statx(folder.fd, textOf(""), flags, STAT_MASK, new Uint8Array(STAT_BYTES));
}

/**
 * Has the kernel drop the names that it has cached of the file system at a mount point,
 * without changing how it is mounted.
 */
export function dropNames(mountPoint: string): void {
  libc ??= loadLibc();
  const stat = new Uint8Array(STATFS_BYTES);
  if (libc.symbols.statfs(textOf(mountPoint), stat) !== 0) return;
  const flags = new DataView(stat.buffer).getBigUint64(STATFS_FLAGS, true) & MOUNT_FLAGS;
  libc.symbols.mount(null, textOf(mountPoint), null, MS_REMOUNT | flags, null);
}

function textOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}
