/**
 * Differences between systems with POSIX calls: values, layouts, and the place of variadic arguments. macOS
 * is here; tests run the same code with Linux's.
 */
import type { FileStat } from "../libc/stat.ts";
import { CallError } from "../libc/descriptor.ts";

export interface Platform {
  library: string;
  /** function that returns the place of `errno` */
  errno: "__error" | "__errno_location";
  errors: Readonly<Record<number, string>>;
  open: Readonly<
    Record<"directory" | "noFollow" | "closeOnExec" | "nonBlock" | "create" | "exclusive" | "hold", number>
  >;
  at: Readonly<Record<"cwd" | "symlinkNoFollow" | "removeDir", number>>;
  seek: Readonly<Record<"data" | "hole", number>>;
  /** `tv_nsec` that leaves a time as it is */
  omitTime: bigint;
  /** size of `struct stat`, in `bytes` */
  statBytes: number;
  parseStat(view: DataView): FileStat & { device: number; inode: bigint };
  /** place of the name in `struct dirent` */
  nameAt: number;
  /** a variadic function finds its last argument on the stack, not in a register: as Apple's do on arm64 */
  variadicOnStack: boolean;
  /** path that reaches a held file, whatever its current name */
  pathOf(fd: number, stat: { device: number; inode: bigint }): string;
}

const TYPE_MASK = 0o170000;
const TYPES: Record<number, FileStat["type"]> = { 0o100000: "file", 0o040000: "folder", 0o120000: "link" };
const BLOCK_UNIT = 512;

/** Fields of `struct stat`, by their places in it. */
export interface StatFields {
  device: number;
  inode: bigint;
  mode: number;
  links: number;
  uid: number;
  gid: number;
  size: bigint;
  blocks: bigint;
  /** places of `struct timespec` */
  changedAt: number;
  modifiedAt: number;
}

/** A `struct stat` in the form that statx(2) has on Linux. */
export function statOf(view: DataView, fields: StatFields): FileStat & { device: number; inode: bigint } {
  const time = (at: number) => [Number(view.getBigInt64(at, true)), Number(view.getBigInt64(at + 8, true))];
  const { device, inode, mode, links, uid, gid } = fields;
  const size = Number(fields.size);
  const [modified, modifiedNs] = time(fields.modifiedAt);
  const [ctime, changedNs] = time(fields.changedAt);
  const mtime = `${modified}.${modifiedNs}`;
  return {
    type: TYPES[mode & TYPE_MASK] ?? "other",
    mode: mode & 0o7777,
    uid,
    gid,
    links,
    size,
    allocated: Math.min(size, Number(fields.blocks) * BLOCK_UNIT),
    mtime,
    ctime,
    stamp: `${device}:${inode}:${size}:${mtime}:${ctime}.${changedNs}`,
    device,
    inode,
  };
}

/** macOS on Apple silicon (sys/fcntl.h, sys/stat.h, sys/dirent.h, sys/errno.h). */
export const DARWIN: Platform = {
  library: "/usr/lib/libSystem.B.dylib",
  errno: "__error",
  errors: {
    ...{
      1: "EPERM",
      2: "ENOENT",
      4: "EINTR",
      6: "ENXIO",
      13: "EACCES",
      17: "EEXIST",
      18: "EXDEV",
      20: "ENOTDIR",
    },
    ...{
      21: "EISDIR",
      24: "EMFILE",
      27: "EFBIG",
      28: "ENOSPC",
      35: "EAGAIN",
      62: "ELOOP",
      63: "ENAMETOOLONG",
    },
    ...{ 66: "ENOTEMPTY", 69: "EDQUOT" },
  },
  open: {
    directory: 0x100000,
    noFollow: 0x100,
    closeOnExec: 0x1000000,
    nonBlock: 0x4,
    create: 0x200,
    exclusive: 0x800,
    // O_EVTONLY: neither for reading nor for writing.
    hold: 0x8000,
  },
  at: { cwd: -2, symlinkNoFollow: 0x20, removeDir: 0x80 },
  seek: { data: 4, hole: 3 },
  omitTime: -2n,
  statBytes: 144,
  parseStat: (view) =>
    statOf(view, {
      device: view.getInt32(0, true),
      mode: view.getUint16(4, true),
      links: view.getUint16(6, true),
      inode: view.getBigUint64(8, true),
      uid: view.getUint32(16, true),
      gid: view.getUint32(20, true),
      modifiedAt: 48,
      changedAt: 64,
      size: view.getBigInt64(96, true),
      blocks: view.getBigInt64(104, true),
    }),
  nameAt: 21,
  variadicOnStack: true,
  // A file by its number, without a lookup of its name.
  pathOf: (_, { device, inode }) => `/.vol/${device}/${inode}`,
};

/** Arguments that fill the registers of Apple's arm64, so that the next one is on the stack. */
const FILLERS = [0n, 0n, 0n, 0n, 0n] as const;

function load({ library, errno, variadicOnStack }: Platform) {
  const fillers = variadicOnStack ? FILLERS.map(() => "u64" as const) : [];
  return Deno.dlopen(library, {
    openat: { parameters: ["i32", "buffer", "i32"], result: "i32" },
    openToCreate: { name: "openat", parameters: ["i32", "buffer", "i32", ...fillers, "u64"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
    dup: { parameters: ["i32"], result: "i32" },
    fstat: { parameters: ["i32", "buffer"], result: "i32" },
    fstatat: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
    pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
    pwrite: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
    lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
    ftruncate: { parameters: ["i32", "i64"], result: "i32" },
    fchmod: { parameters: ["i32", "u32"], result: "i32" },
    fchown: { parameters: ["i32", "u32", "u32"], result: "i32" },
    futimens: { parameters: ["i32", "buffer"], result: "i32" },
    fsync: { parameters: ["i32"], result: "i32", nonblocking: true },
    fdopendir: { parameters: ["i32"], result: "pointer" },
    rewinddir: { parameters: ["pointer"], result: "void" },
    readdir: { parameters: ["pointer"], result: "pointer" },
    closedir: { parameters: ["pointer"], result: "i32" },
    readlinkat: { parameters: ["i32", "buffer", "buffer", "usize"], result: "isize" },
    symlinkat: { parameters: ["buffer", "i32", "buffer"], result: "i32" },
    mkdirat: { parameters: ["i32", "buffer", "u32"], result: "i32" },
    renameat: { parameters: ["i32", "buffer", "i32", "buffer"], result: "i32" },
    unlinkat: { parameters: ["i32", "buffer", "i32"], result: "i32" },
    utimensat: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
    fchownat: { parameters: ["i32", "buffer", "u32", "u32", "i32"], result: "i32" },
    errno: { name: errno, parameters: [], result: "pointer" },
  });
}

/** The functions of a platform's C library, loaded when they are needed. */
export class Calls {
  readonly platform: Platform;
  #loaded: ReturnType<typeof load> | undefined;

  constructor(platform: Platform) {
    this.platform = platform;
  }

  get c(): ReturnType<typeof load>["symbols"] {
    return (this.#loaded ??= load(this.platform)).symbols;
  }

  /** Opens an existing entry. @returns a descriptor @throws {CallError} */
  open(at: number, name: Uint8Array<ArrayBuffer>, flags: number): number {
    return this.require("openat", this.c.openat(at, name, flags | this.platform.open.closeOnExec));
  }

  /** Opens a file that must not be there. @returns a descriptor @throws {CallError} */
  create(at: number, name: Uint8Array<ArrayBuffer>, mode: number): number {
    const { create, exclusive, noFollow, closeOnExec } = this.platform.open;
    const flags = 2 /* O_RDWR */ | create | exclusive | noFollow | closeOnExec;
    const open = this.c.openToCreate as unknown as (...args: unknown[]) => number;
    const fillers = this.platform.variadicOnStack ? FILLERS : [];
    return this.require("create", open(at, name, flags, ...fillers, BigInt(mode)));
  }

  /** @throws {CallError} the call has failed */
  require(call: string, result: number): number {
    if (result < 0) throw this.error(call);
    return result;
  }

  /** The error of the call that just failed in this thread. */
  error(call: string): CallError {
    const errno = new Deno.UnsafePointerView(this.c.errno()!).getInt32();
    return new CallError(call, this.platform.errors[errno] ?? String(errno));
  }
}
