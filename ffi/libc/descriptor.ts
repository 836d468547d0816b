/** Open files by number, with operations that Deno lacks: holes, clones, exact times. Linux only. */
import { type FileStat, parseStat, STAT_BYTES, STAT_MASK } from "./stat.ts";

const SEEK_DATA = 3, SEEK_HOLE = 4;
const FICLONE = 0x40049409n;
const AT_EMPTY_PATH = 0x1000;
const ERRNO: Record<number, string> = {
  1: "EPERM",
  2: "ENOENT",
  4: "EINTR",
  6: "ENXIO",
  7: "E2BIG",
  8: "ENOEXEC",
  11: "EAGAIN",
  13: "EACCES",
  17: "EEXIST",
  18: "EXDEV",
  20: "ENOTDIR",
  21: "EISDIR",
  24: "EMFILE",
  27: "EFBIG",
  28: "ENOSPC",
  32: "EPIPE",
  36: "ENAMETOOLONG",
  39: "ENOTEMPTY",
  40: "ELOOP",
  122: "EDQUOT",
};

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
    statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
    pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "i64" },
    pwrite: { parameters: ["i32", "buffer", "usize", "i64"], result: "i64" },
    lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
    ftruncate: { parameters: ["i32", "i64"], result: "i32" },
    fchmod: { parameters: ["i32", "u32"], result: "i32" },
    fchown: { parameters: ["i32", "u32", "u32"], result: "i32" },
    futimens: { parameters: ["i32", "buffer"], result: "i32" },
    fsync: { parameters: ["i32"], result: "i32", nonblocking: true },
    ioctl: { parameters: ["i32", "u64", "i64"], result: "i32" },
    __errno_location: { parameters: [], result: "pointer" },
  });
}

let loaded: ReturnType<typeof loadLibc> | undefined;
const libc = () => (loaded ??= loadLibc()).symbols;

/** A system call that failed; `code` is the name of the errno, or its number. */
export class CallError extends Error {
  override name = "CallError";
  readonly code: string;

  constructor(call: string, code: string) {
    super(`${call}: ${code}`);
    this.code = code;
  }
}

/** The error of the call that just failed in this thread. */
export function callError(call: string): CallError {
  return new CallError(call, codeOf(errno()));
}

/** The `errno` of the call that just failed in this thread. */
export function errno(): number {
  return new Deno.UnsafePointerView(libc().__errno_location()!).getInt32();
}

/** Name of an `errno`, or its number. */
export function codeOf(errno: number): string {
  return ERRNO[errno] ?? String(errno);
}

/** Bytes of a text or name, with the NUL that ends it. */
export function cString(name: string | Uint8Array): Uint8Array<ArrayBuffer> {
  if (typeof name === "string") return new TextEncoder().encode(`${name}\0`);
  const bytes = new Uint8Array(name.length + 1);
  bytes.set(name);
  return bytes;
}

const EMPTY = cString("");
const times = new BigInt64Array(4);
/** `tv_nsec` that leaves a time as it is. */
const UTIME_OMIT = (1n << 30n) - 2n;

/** Fills the `struct timespec[2]` of utimensat(2): the time of access stays. */
export function timesOf(seconds: bigint, nanoseconds: bigint): Uint8Array<ArrayBuffer> {
  times.set([0n, UTIME_OMIT, seconds, nanoseconds]);
  return new Uint8Array(times.buffer);
}

/** One open file. Every method throws {@linkcode CallError}. */
export class Descriptor implements Disposable {
  readonly fd: number;

  constructor(fd: number) {
    this.fd = fd;
  }

  /** Opens the same file again with other flags: a file opened with O_PATH becomes readable. */
  reopen(flags: number): Descriptor {
    const fd = libc().open(cString(`/proc/self/fd/${this.fd}`), flags, 0);
    if (fd < 0) throw callError("open");
    return new Descriptor(fd);
  }

  stat(): FileStat {
    const buffer = new Uint8Array(STAT_BYTES);
    this.#require("statx", libc().statx(this.fd, EMPTY, AT_EMPTY_PATH, STAT_MASK, buffer));
    return parseStat(new DataView(buffer.buffer));
  }

  /** Fills a buffer as far as the file goes. @returns `bytes` read */
  read(buffer: Uint8Array<ArrayBuffer>, offset: number): number {
    let size = 0;
    while (size < buffer.length) {
      const rest = buffer.subarray(size);
      const count = Number(libc().pread(this.fd, rest, BigInt(rest.length), BigInt(offset + size)));
      this.#require("pread", count);
      if (count === 0) break;
      size += count;
    }
    return size;
  }

  write(bytes: Uint8Array<ArrayBuffer>, offset: number): void {
    for (let at = 0; at < bytes.length;) {
      const rest = bytes.subarray(at);
      const count = Number(libc().pwrite(this.fd, rest, BigInt(rest.length), BigInt(offset + at)));
      this.#require("pwrite", count);
      at += count;
    }
  }

  /** Start and end of the data from `offset` on; undefined: there is only a hole. */
  nextData(offset: number): { start: number; end: number } | undefined {
    const start = libc().lseek(this.fd, BigInt(offset), SEEK_DATA);
    if (start < 0n) {
      const error = callError("lseek");
      if (error.code === "ENXIO") return undefined;
      throw error;
    }
    const end = libc().lseek(this.fd, start, SEEK_HOLE);
    this.#require("lseek", Number(end));
    return { start: Number(start), end: Number(end) };
  }

  truncate(size: number): void {
    this.#require("ftruncate", libc().ftruncate(this.fd, BigInt(size)));
  }

  /** Shares the blocks of another file. @returns false: this file system, or this pair of them, cannot */
  cloneFrom(source: Descriptor): boolean {
    return libc().ioctl(this.fd, FICLONE, BigInt(source.fd)) === 0;
  }

  chmod(mode: number): void {
    this.#require("fchmod", libc().fchmod(this.fd, mode));
  }

  /** Gives the file to a user; without root, it keeps its owner. */
  tryChown(uid: number, gid: number): void {
    libc().fchown(this.fd, uid, gid);
  }

  /** Sets the time of the last change of content. */
  setTime(seconds: bigint, nanoseconds: bigint): void {
    this.#require("futimens", libc().futimens(this.fd, timesOf(seconds, nanoseconds)));
  }

  async sync(): Promise<void> {
    if (await libc().fsync(this.fd) < 0) throw new CallError("fsync", "EIO");
  }

  [Symbol.dispose](): void {
    libc().close(this.fd);
  }

  #require(call: string, result: number): void {
    if (result < 0) throw callError(call);
  }
}
