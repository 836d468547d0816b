/**
 * Folders of a tree that another program changes at the same time: each is opened below the root without
 * following a link, and its entries are named by bytes relative to it. Linux only.
 */
import { O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_PATH } from "./flags.ts";
import { callError, cString, Descriptor, timesOf } from "./descriptor.ts";
import { type FileStat, parseStat, STAT_BYTES, STAT_MASK } from "./stat.ts";

const SYS_OPENAT2 = 437n;
const O_RDWR = 2, O_CREAT = 0o100, O_EXCL = 0o200, O_NONBLOCK = 0o4000;
const RESOLVE_NO_SYMLINKS = 0x04n, RESOLVE_BENEATH = 0x08n;
/** Size of `struct open_how`, in `bytes`: three u64. */
const HOW_BYTES = 24n;
const AT_FDCWD = -100, AT_SYMLINK_NOFOLLOW = 0x100, AT_REMOVEDIR = 0x200;
/** Offsets in struct linux_dirent64, in `bytes`: of its length, and of its name, which ends with NUL. */
const LENGTH_AT = 16, NAME_AT = 19;
const NAMES_BYTES = 64 * 1024;
/** Longest target of a link, in `bytes` (PATH_MAX). */
const TARGET_BYTES = 4096;

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    syscall: { parameters: ["i64", "i32", "buffer", "buffer", "usize"], result: "i64" },
    openat: { parameters: ["i32", "buffer", "i32", "u32"], result: "i32" },
    statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
    getdents64: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    readlinkat: { parameters: ["i32", "buffer", "buffer", "usize"], result: "isize" },
    symlinkat: { parameters: ["buffer", "i32", "buffer"], result: "i32" },
    mkdirat: { parameters: ["i32", "buffer", "u32"], result: "i32" },
    renameat: { parameters: ["i32", "buffer", "i32", "buffer"], result: "i32" },
    unlinkat: { parameters: ["i32", "buffer", "i32"], result: "i32" },
    utimensat: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
    fchownat: { parameters: ["i32", "buffer", "u32", "u32", "i32"], result: "i32" },
  });
}

let loaded: ReturnType<typeof loadLibc> | undefined;
const libc = () => (loaded ??= loadLibc()).symbols;
const stat = new Uint8Array(STAT_BYTES);
const statView = new DataView(stat.buffer);

/** Bytes of a name without `/`, with or without a NUL at the end. */
type Name = Uint8Array<ArrayBuffer>;

/** An open folder. Names are single components; every method throws `CallError` and follows no link. */
export class Folder extends Descriptor {
  /** Opens a folder of this program's own; links in its path are followed. */
  static open(path: string): Folder {
    const fd = libc().openat(AT_FDCWD, cString(path), O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) throw callError("open");
    return new Folder(fd);
  }

  /** Opens a folder below this one. @param path bytes, relative; empty: this folder again */
  folder(path: Uint8Array): Folder {
    const how = new BigUint64Array([
      BigInt(O_DIRECTORY | O_CLOEXEC),
      0n,
      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    ]);
    const name = path.length === 0 ? cString(".") : cString(path);
    const fd = Number(libc().syscall(SYS_OPENAT2, this.fd, name, new Uint8Array(how.buffer), HOW_BYTES));
    if (fd < 0) throw callError("openat2");
    return new Folder(fd);
  }

  /** Yields the names in this folder, without `.` and `..`, in no order; each is valid until the next. */
  *names(): Generator<Name> {
    const buffer = new Uint8Array(NAMES_BYTES);
    const view = new DataView(buffer.buffer);
    while (true) {
      const count = Number(libc().getdents64(this.fd, buffer, BigInt(buffer.length)));
      if (count < 0) throw callError("getdents64");
      if (count === 0) return;
      for (let at = 0; at < count; at += view.getUint16(at + LENGTH_AT, true)) {
        const start = at + NAME_AT;
        const end = buffer.indexOf(0, start);
        const isDots = buffer[start] === 0x2e &&
          (end === start + 1 || end === start + 2 && buffer[start + 1] === 0x2e);
        if (!isDots) yield buffer.subarray(start, end);
      }
    }
  }

  /** Attributes of an entry. @returns undefined if it does not exist */
  statOf(name: Name): FileStat | undefined {
    if (libc().statx(this.fd, cString(name), AT_SYMLINK_NOFOLLOW, STAT_MASK, stat) === 0) {
      return parseStat(statView);
    }
    const error = callError("statx");
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  }

  /** Opens a regular file for reading, touching nothing else. @returns undefined: not a regular file */
  openFile(name: Name): Descriptor | undefined {
    const fd = libc().openat(this.fd, cString(name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0) throw callError("open");
    using found = new Descriptor(fd);
    return found.stat().type === "file" ? found.reopen(O_NONBLOCK | O_CLOEXEC) : undefined;
  }

  /** Creates a file that must not exist. */
  create(name: Name, mode = 0o600): Descriptor {
    const flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const fd = libc().openat(this.fd, cString(name), flags, mode);
    if (fd < 0) throw callError("create");
    return new Descriptor(fd);
  }

  readLink(name: Name): Uint8Array<ArrayBuffer> {
    const buffer = new Uint8Array(TARGET_BYTES);
    const count = Number(libc().readlinkat(this.fd, cString(name), buffer, BigInt(buffer.length)));
    if (count < 0) throw callError("readlink");
    return buffer.slice(0, count);
  }

  makeLink(name: Name, target: Uint8Array): void {
    require("symlink", libc().symlinkat(cString(target), this.fd, cString(name)));
  }

  makeFolder(name: Name, mode = 0o700): void {
    require("mkdir", libc().mkdirat(this.fd, cString(name), mode));
  }

  /** Puts an entry in the place of another one, or of none, atomically. */
  rename(from: Name, to: Name): void {
    require("rename", libc().renameat(this.fd, cString(from), this.fd, cString(to)));
  }

  remove(name: Name): void {
    require("unlink", libc().unlinkat(this.fd, cString(name), 0));
  }

  removeFolder(name: Name): void {
    require("rmdir", libc().unlinkat(this.fd, cString(name), AT_REMOVEDIR));
  }

  /** Sets the time of the last change of a link itself. */
  setTimeOf(name: Name, seconds: bigint, nanoseconds: bigint): void {
    const times = timesOf(seconds, nanoseconds);
    require("utimensat", libc().utimensat(this.fd, cString(name), times, AT_SYMLINK_NOFOLLOW));
  }

  /** Gives a link to a user; without root, it keeps its owner. */
  tryChownOf(name: Name, uid: number, gid: number): void {
    libc().fchownat(this.fd, cString(name), uid, gid, AT_SYMLINK_NOFOLLOW);
  }
}

function require(call: string, result: number): void {
  if (result < 0) throw callError(call);
}
