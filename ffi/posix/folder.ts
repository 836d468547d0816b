/**
 * Folders of a tree that another program changes at the same time: each is opened component by component
 * without following a link, and its entries are named by bytes relative to it.
 */
import type { Descriptor, Folder } from "../host/handle.ts";
import { CallError, cString } from "../libc/descriptor.ts";
import type { FileStat } from "../libc/stat.ts";
import type { Calls } from "./platform.ts";

/** One open file, with operations that Deno lacks: holes, exact times. Every method throws `CallError`. */
export class PosixDescriptor implements Descriptor {
  readonly fd: number;
  protected readonly calls: Calls;

  constructor(calls: Calls, fd: number) {
    this.calls = calls;
    this.fd = fd;
  }

  stat(): FileStat {
    const { statBytes, parseStat } = this.calls.platform;
    const buffer = new Uint8Array(statBytes);
    this.calls.require("fstat", this.calls.c.fstat(this.fd, buffer));
    return parseStat(new DataView(buffer.buffer));
  }

  read(buffer: Uint8Array<ArrayBuffer>, offset: number): number {
    let size = 0;
    while (size < buffer.length) {
      const rest = buffer.subarray(size);
      const count = Number(this.calls.c.pread(this.fd, rest, BigInt(rest.length), BigInt(offset + size)));
      this.calls.require("pread", count);
      if (count === 0) break;
      size += count;
    }
    return size;
  }

  write(bytes: Uint8Array<ArrayBuffer>, offset: number): void {
    for (let at = 0; at < bytes.length;) {
      const rest = bytes.subarray(at);
      const count = Number(this.calls.c.pwrite(this.fd, rest, BigInt(rest.length), BigInt(offset + at)));
      at += this.calls.require("pwrite", count);
    }
  }

  nextData(offset: number): { start: number; end: number } | undefined {
    const { data, hole } = this.calls.platform.seek;
    const start = this.calls.c.lseek(this.fd, BigInt(offset), data);
    if (start < 0n) {
      const error = this.calls.error("lseek");
      if (error.code === "ENXIO") return undefined;
      throw error;
    }
    const end = Number(this.calls.c.lseek(this.fd, start, hole));
    return { start: Number(start), end: this.calls.require("lseek", end) };
  }

  truncate(size: number): void {
    this.calls.require("ftruncate", this.calls.c.ftruncate(this.fd, BigInt(size)));
  }

  /** Whole files alone can be cloned here, by their names. */
  cloneFrom(_source: Descriptor): boolean {
    return false;
  }

  chmod(mode: number): void {
    this.calls.require("fchmod", this.calls.c.fchmod(this.fd, mode));
  }

  tryChown(uid: number, gid: number): void {
    this.calls.c.fchown(this.fd, uid, gid);
  }

  setTime(seconds: bigint, nanoseconds: bigint): void {
    const times = timesOf(this.calls, seconds, nanoseconds);
    this.calls.require("futimens", this.calls.c.futimens(this.fd, times));
  }

  async sync(): Promise<void> {
    if (await this.calls.c.fsync(this.fd) < 0) throw this.calls.error("fsync");
  }

  [Symbol.dispose](): void {
    this.calls.c.close(this.fd);
  }
}

/** Fills the `struct timespec[2]` of utimensat(2): the time of access stays. */
function timesOf({ platform }: Calls, seconds: bigint, nanoseconds: bigint): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new BigInt64Array([0n, platform.omitTime, seconds, nanoseconds]).buffer);
}

/** Longest target of a link, in `bytes` (PATH_MAX of Linux; macOS has 1024). */
const TARGET_BYTES = 4096;
const DOT = 0x2e, SLASH = 0x2f;
/** Place of the length in `struct dirent`, in `bytes`. */
const LENGTH_AT = 16;

type Name = Uint8Array<ArrayBuffer>;

/** An open folder. Names are single components; every method throws `CallError` and follows no link. */
export class PosixFolder extends PosixDescriptor implements Folder {
  /** Opens a folder of this program's own; links in its path are followed. */
  static open(calls: Calls, path: string): PosixFolder {
    const { at, open } = calls.platform;
    return new PosixFolder(calls, calls.open(at.cwd, cString(path), open.directory));
  }

  folder(path: Uint8Array): PosixFolder {
    const { directory, noFollow } = this.calls.platform.open;
    let opened = this.calls.open(this.fd, cString("."), directory);
    for (const part of split(path)) {
      const above = opened;
      try {
        if (isParent(part)) throw new CallError("openat", "EXDEV");
        opened = this.#openBelow(above, part, directory | noFollow);
      } finally {
        this.calls.c.close(above);
      }
    }
    return new PosixFolder(this.calls, opened);
  }

  /** A link is ELOOP everywhere; some systems first see that it is no folder. */
  #openBelow(above: number, name: Uint8Array, flags: number): number {
    try {
      return this.calls.open(above, cString(name), flags);
    } catch (error) {
      if (!(error instanceof CallError) || error.code !== "ENOTDIR") throw error;
      const isLink = this.calls.c.readlinkat(above, cString(name), new Uint8Array(1), 1n) >= 0;
      throw isLink ? new CallError("openat", "ELOOP") : error;
    }
  }

  *names(): Generator<Name> {
    const { c, platform } = this.calls;
    const folder = c.fdopendir(this.calls.require("dup", c.dup(this.fd)));
    if (folder === null) throw this.calls.error("fdopendir");
    try {
      // The copy of a descriptor has the place of the original.
      c.rewinddir(folder);
      for (let entry = c.readdir(folder); entry !== null; entry = c.readdir(folder)) {
        const name = nameOf(entry, platform.nameAt);
        if (!isDots(name)) yield name;
      }
    } finally {
      c.closedir(folder);
    }
  }

  statOf(name: Name): FileStat | undefined {
    const { c, platform } = this.calls;
    const buffer = new Uint8Array(platform.statBytes);
    if (c.fstatat(this.fd, cString(name), buffer, platform.at.symlinkNoFollow) === 0) {
      return platform.parseStat(new DataView(buffer.buffer));
    }
    const error = this.calls.error("fstatat");
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  }

  openFile(name: Name): PosixDescriptor | undefined {
    if (this.statOf(name)?.type !== "file") {
      if (this.statOf(name)) return undefined;
      throw new CallError("open", "ENOENT");
    }
    const { noFollow, nonBlock } = this.calls.platform.open;
    // An entry that replaced it since then blocks no open, and is no regular file either.
    const file = new PosixDescriptor(
      this.calls,
      this.calls.open(this.fd, cString(name), noFollow | nonBlock),
    );
    if (file.stat().type === "file") return file;
    file[Symbol.dispose]();
    return undefined;
  }

  create(name: Name, mode = 0o600): PosixDescriptor {
    return new PosixDescriptor(this.calls, this.calls.create(this.fd, cString(name), mode));
  }

  readLink(name: Name): Uint8Array<ArrayBuffer> {
    const buffer = new Uint8Array(TARGET_BYTES);
    const count = Number(this.calls.c.readlinkat(this.fd, cString(name), buffer, BigInt(buffer.length)));
    return buffer.slice(0, this.calls.require("readlink", count));
  }

  makeLink(name: Name, target: Uint8Array): void {
    this.calls.require("symlink", this.calls.c.symlinkat(cString(target), this.fd, cString(name)));
  }

  makeFolder(name: Name, mode = 0o700): void {
    this.calls.require("mkdir", this.calls.c.mkdirat(this.fd, cString(name), mode));
  }

  rename(from: Name, to: Name): void {
    this.calls.require("rename", this.calls.c.renameat(this.fd, cString(from), this.fd, cString(to)));
  }

  remove(name: Name): void {
    this.calls.require("unlink", this.calls.c.unlinkat(this.fd, cString(name), 0));
  }

  removeFolder(name: Name): void {
    const { removeDir } = this.calls.platform.at;
    this.calls.require("rmdir", this.calls.c.unlinkat(this.fd, cString(name), removeDir));
  }

  setTimeOf(name: Name, seconds: bigint, nanoseconds: bigint): void {
    const { c, platform: { at } } = this.calls;
    const times = timesOf(this.calls, seconds, nanoseconds);
    this.calls.require("utimensat", c.utimensat(this.fd, cString(name), times, at.symlinkNoFollow));
  }

  tryChownOf(name: Name, uid: number, gid: number): void {
    const { c, platform: { at } } = this.calls;
    c.fchownat(this.fd, cString(name), uid, gid, at.symlinkNoFollow);
  }
}

/** The name in a `struct dirent`, whose length is at the same place everywhere. */
function nameOf(entry: Deno.PointerObject, at: number): Name {
  const view = new Deno.UnsafePointerView(entry);
  const rest = new Uint8Array(view.getArrayBuffer(view.getUint16(LENGTH_AT) - at, at));
  return rest.slice(0, rest.indexOf(0));
}

function isDots(name: Uint8Array): boolean {
  return name.length <= 2 && name.every((byte) => byte === DOT);
}

function isParent(name: Uint8Array): boolean {
  return name.length === 2 && isDots(name);
}

/** Components of a path, without empty ones and `.`. */
function split(path: Uint8Array): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let start = 0; start <= path.length;) {
    const slash = path.indexOf(SLASH, start);
    const end = slash < 0 ? path.length : slash;
    const part = path.slice(start, end);
    if (part.length > 0 && !(part.length === 1 && part[0] === DOT)) parts.push(part);
    start = end + 1;
  }
  return parts;
}

/**
 * Yields the names in a folder, without `.` and `..`, in no order.
 * @throws {Error} the folder cannot be read
 */
export async function* readNamesOf(calls: Calls, path: string): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  using folder = openOrThrow(calls, path);
  let count = 0;
  for (const name of folder.names()) {
    // A large folder must not block other work.
    if (++count % 1000 === 0) await new Promise((resolve) => setTimeout(resolve));
    yield name;
  }
}

function openOrThrow(calls: Calls, path: string): PosixFolder {
  try {
    return PosixFolder.open(calls, path);
  } catch (cause) {
    throw new Error(`the folder ${path} cannot be opened`, { cause });
  }
}
