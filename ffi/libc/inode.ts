/** Files, whatever their names. Linux only. */
import { cString } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";
import { STAT_BYTES } from "./stat.ts";

const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const STATX_INO = 0x100;

let loaded: ReturnType<typeof loadLibc> | undefined;
const libc = () => loaded ??= loadLibc();

function loadLibc() {
  return loadFunctions({
    statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
    pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
  });
}

const EMPTY = cString("");
const stat = new Uint8Array(STAT_BYTES);
const view = new DataView(stat.buffer);

/** Tells files apart, an open one or one at a path; undefined where there is none. */
export function identityOf(file: number | string): string | undefined {
  const found = typeof file === "number"
    ? libc().statx(file, EMPTY, AT_EMPTY_PATH, STATX_INO, stat)
    : libc().statx(AT_FDCWD, cString(file), 0, STATX_INO, stat);
  if (found !== 0) return undefined;
  return `${view.getUint32(136, true)}.${view.getUint32(140, true)}:${view.getBigUint64(32, true)}`;
}

/** Reads the begin of an open file. @returns the number of `bytes` */
export function readHead(fd: number, into: Uint8Array<ArrayBuffer>): number {
  return Math.max(0, Number(libc().pread(fd, into, BigInt(into.length), 0n)));
}
