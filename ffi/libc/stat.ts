/** statx(2): the same layout on every architecture. */

/** Size of `struct statx`, in `bytes`. */
export const STAT_BYTES = 256;
/** STATX_BASIC_STATS. */
export const STAT_MASK = 0x7ff;

const TYPE_MASK = 0o170000;
const TYPES: Record<number, FileStat["type"]> = { 0o100000: "file", 0o040000: "folder", 0o120000: "link" };

/** The kernel's attributes of a file, without following a link. */
export interface FileStat {
  type: "file" | "folder" | "link" | "other";
  /** permission bits, with set-user-id and the like */
  mode: number;
  uid: number;
  gid: number;
  /** names of the same file */
  links: number;
  /** `bytes` */
  size: number;
  /** `bytes` on the disk; fewer than `size` if the file has holes */
  allocated: number;
  /** last change of the content: `seconds.nanoseconds` since 1970 */
  mtime: string;
  /** last change of any kind, in `s` since 1970; set by the kernel, never by programs */
  ctime: number;
  /** changes with every write to the file, and with its replacement by another one */
  stamp: string;
}

const BLOCK_UNIT = 512;

/** Reads a `struct statx`. */
export function parseStat(view: DataView): FileStat {
  const mode = view.getUint16(28, true);
  const size = Number(view.getBigUint64(40, true));
  const ctime = Number(view.getBigInt64(96, true));
  const mtime = `${Number(view.getBigInt64(112, true))}.${view.getUint32(120, true)}`;
  const device = `${view.getUint32(136, true)}.${view.getUint32(140, true)}`;
  return {
    type: TYPES[mode & TYPE_MASK] ?? "other",
    mode: mode & 0o7777,
    uid: view.getUint32(20, true),
    gid: view.getUint32(24, true),
    links: view.getUint32(16, true),
    size,
    allocated: Math.min(size, Number(view.getBigUint64(48, true)) * BLOCK_UNIT),
    mtime,
    ctime,
    stamp: `${device}:${view.getBigUint64(32, true)}:${size}:${mtime}:${ctime}.${view.getUint32(104, true)}`,
  };
}
