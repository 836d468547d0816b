/** Open files by number, with operations that Deno lacks: holes, exact times. */
import type { Descriptor } from "../host/handle.ts";
import type { FileStat } from "../libc/stat.ts";
import type { Calls } from "./calls.ts";

/** One open file. Every method throws `CallError`. */
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
export function timesOf({ platform }: Calls, seconds: bigint, nanoseconds: bigint): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new BigInt64Array([0n, platform.omitTime, seconds, nanoseconds]).buffer);
}
