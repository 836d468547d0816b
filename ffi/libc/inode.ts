/** Files, whatever their names. Linux only. */
import { cString } from "./descriptor.ts";
import { O_CLOEXEC, O_PATH } from "./flags.ts";
import { loadFunctions } from "./load.ts";
import { STAT_BYTES } from "./stat.ts";

const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
/** Takes cached attributes, without asking the file system's server. */
const AT_STATX_DONT_SYNC = 0x4000;
const STATX_INO = 0x100, STATX_MNT_ID = 0x1000;

let loaded: ReturnType<typeof loadLibc> | undefined;
const libc = () => loaded ??= loadLibc();

function loadLibc() {
  return loadFunctions({
    statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
    open: { parameters: ["buffer", "i32"], result: "i32" },
    pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
  });
}

const EMPTY = cString("");
const stat = new Uint8Array(STAT_BYTES);
const view = new DataView(stat.buffer);

/** Identity of a file, open or at a path; undefined if it does not exist. */
export function identityOf(file: number | string): string | undefined {
  const found = typeof file === "number"
    ? libc().statx(file, EMPTY, AT_EMPTY_PATH, STATX_INO, stat)
    : libc().statx(AT_FDCWD, cString(file), 0, STATX_INO, stat);
  if (found !== 0) return undefined;
  return `${view.getUint32(136, true)}.${view.getUint32(140, true)}:${view.getBigUint64(32, true)}`;
}

/** Number of the mount of an open file, or of a path; undefined if it does not exist (Linux 5.8). */
export function mountOf(file: number | string): number | undefined {
  const found = typeof file === "number"
    ? libc().statx(file, EMPTY, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, stat)
    : libc().statx(AT_FDCWD, cString(file), AT_STATX_DONT_SYNC, STATX_MNT_ID, stat);
  if (found !== 0 || (view.getUint32(0, true) & STATX_MNT_ID) === 0) return undefined;
  return Number(view.getBigUint64(144, true));
}

/** Opens a folder without reading it: its mount stays, also where it is unmounted. @returns the descriptor */
export function holdMount(path: string): number {
  const fd = libc().open(cString(path), O_PATH | O_CLOEXEC);
  if (fd < 0) throw new Error(`${path} cannot be opened`);
  return fd;
}

/** Reads the begin of an open file. @returns the number of `bytes` */
export function readHead(fd: number, into: Uint8Array<ArrayBuffer>): number {
  return Math.max(0, Number(libc().pread(fd, into, BigInt(into.length), 0n)));
}
