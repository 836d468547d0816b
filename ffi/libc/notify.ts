/**
 * System calls of other programs that wait for this one's decision (seccomp_unotify(2)). A thread puts a
 * filter on itself, which the programs that it starts inherit. Linux 5.14 and later.
 */
import { O_CLOEXEC, O_PATH } from "./flags.ts";
import { addressOf } from "./load.ts";
import { ALLOW, applyFilter, fail, FILTER_NEW_LISTENER, filterOf, NOTIFY } from "./seccomp.ts";

const EPERM = 1;

const NOTIF_RECV = 0xc0502100n, NOTIF_SEND = 0xc0182101n, NOTIF_ADDFD = 0x40182103n;
const FLAG_CONTINUE = 1;
const ADDFD_FLAG_SEND = 2;
const O_EXCL = 0o200;

export const O_CREAT = 0o100;
/** Set-user-ID and set-group-ID. */
export const SET_ID = 0o6000;

/** Calls with names of files, and two with modes. */
export type CallName =
  | "openat"
  | "openat2"
  | "mkdirat"
  | "mknodat"
  | "symlinkat"
  | "linkat"
  | "renameat"
  | "renameat2"
  | "unlinkat";

interface CallArch {
  calls: Record<CallName, number>;
  /** calls that change a mode, and the place of that among their arguments */
  chmod: [nr: number, mode: number][];
}

const ARCHES: Partial<Record<typeof Deno.build.arch, CallArch>> = {
  x86_64: {
    // deno-fmt-ignore
    calls: { openat: 257, mkdirat: 258, mknodat: 259, unlinkat: 263, renameat: 264, linkat: 265, symlinkat: 266, renameat2: 316, openat2: 437 },
    chmod: [[91, 1], [268, 2], [452, 2]],
  },
  aarch64: {
    // deno-fmt-ignore
    calls: { mknodat: 33, mkdirat: 34, unlinkat: 35, symlinkat: 36, linkat: 37, renameat: 38, openat: 56, renameat2: 276, openat2: 437 },
    chmod: [[52, 1], [53, 2], [452, 2]],
  },
};

/** A call that waits. */
export interface WaitingCall {
  id: bigint;
  /** thread that waits */
  pid: number;
  call: CallName;
  args: bigint[];
}

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
    process_vm_readv: {
      parameters: ["i32", "buffer", "u64", "buffer", "u64", "u64"],
      result: "i64",
    },
    open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let loaded: ReturnType<typeof loadLibc>["symbols"] | undefined;
const libc = () => loaded ??= loadLibc().symbols;

/**
 * Suspends calls with file names, of this thread and of all it starts from now on, and refuses modes with
 * {@linkcode SET_ID}. Opening waits only where a file is looked up (`O_PATH`) or may be made. Needs
 * CAP_SYS_ADMIN, or no way to new privileges.
 *
 * @returns a file by number that the calls are received from, by another thread
 * @throws {Error} the kernel does not support it, or another listener exists
 */
export function listenToCalls(): number {
  const { calls: { openat, ...calls }, chmod } = archOf();
  const filter = filterOf({
    tests: [
      { nr: openat, at: 2, bits: O_PATH | O_CREAT, then: NOTIFY, otherwise: ALLOW },
      ...chmod.map(([nr, at]) => ({ nr, at, bits: SET_ID, then: fail(EPERM), otherwise: ALLOW })),
    ],
    ends: Object.values(calls).map((nr) => [nr, NOTIFY]),
  });
  const listener = applyFilter(filter, FILTER_NEW_LISTENER);
  if (listener < 0) throw new Error("the kernel refused a seccomp filter with a listener");
  return listener;
}

/** Receives and answers calls, one at a time. */
export class CallListener {
  readonly #fd: number;
  readonly #names = new Map(Object.entries(archOf().calls).map(([name, nr]) => [nr, name as CallName]));
  readonly #request = new DataView(new ArrayBuffer(80));
  readonly #answer = new DataView(new ArrayBuffer(24));
  readonly #memory = new Uint8Array(4096);

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Waits for a call. @returns undefined when the last filtered thread has ended */
  receive(): WaitingCall | undefined {
    const request = this.#request;
    new Uint8Array(request.buffer).fill(0);
    // A thread that was killed meanwhile is ENOENT: it is followed by others, or by none.
    for (let misses = 0; libc().ioctl(this.#fd, NOTIF_RECV, new Uint8Array(request.buffer)) !== 0;) {
      if (++misses > 100) return undefined;
    }
    const call = this.#names.get(request.getInt32(16, true))!;
    const args = Array.from({ length: 6 }, (_, at) => request.getBigUint64(32 + at * 8, true));
    return { id: request.getBigUint64(0, true), pid: request.getUint32(8, true), call, args };
  }

  /**
   * Reads a text that ends with NUL from the memory of a thread that waits.
   * @returns undefined when it cannot
   */
  text({ pid }: WaitingCall, address: bigint): Uint8Array | undefined {
    const bytes = this.#read(pid, address, this.#memory.length);
    const end = bytes?.indexOf(0) ?? -1;
    return end < 0 ? undefined : bytes!.slice(0, end);
  }

  /** Reads numbers of 64 bits. @returns undefined when it cannot */
  numbers({ pid }: WaitingCall, address: bigint, count: number): BigUint64Array | undefined {
    const bytes = this.#read(pid, address, count * 8);
    return bytes?.length === count * 8 ? new BigUint64Array(bytes.slice().buffer) : undefined;
  }

  /** Lets a call go on unchanged. */
  allow({ id }: WaitingCall): void {
    this.#send(id, 0, FLAG_CONTINUE);
  }

  /** Answers a call whose work this process has done. */
  done({ id }: WaitingCall): void {
    this.#send(id, 0, 0);
  }

  refuse({ id }: WaitingCall, errno: number): void {
    this.#send(id, -errno, 0);
  }

  /** Answers a call that opens a file with one of this process. */
  give(call: WaitingCall, fd: number): void {
    const { id } = call;
    const view = new DataView(new ArrayBuffer(24));
    view.setBigUint64(0, id, true);
    view.setUint32(8, ADDFD_FLAG_SEND, true);
    view.setUint32(12, fd, true);
    view.setUint32(20, O_CLOEXEC, true);
    const given = libc().ioctl(this.#fd, NOTIF_ADDFD, new Uint8Array(view.buffer));
    if (given < 0) this.refuse(call, EPERM);
  }

  #send(id: bigint, error: number, flags: number): void {
    this.#answer.setBigUint64(0, id, true);
    this.#answer.setBigInt64(8, 0n, true);
    this.#answer.setInt32(16, error, true);
    this.#answer.setUint32(20, flags, true);
    // It fails when the thread was killed meanwhile.
    libc().ioctl(this.#fd, NOTIF_SEND, new Uint8Array(this.#answer.buffer));
  }

  /** Reads as much as possible: the end of a name may be the end of the mapped memory. */
  #read(pid: number, address: bigint, bytes: number): Uint8Array | undefined {
    const page = 4096n;
    const first = Number(page - address % page);
    const parts = [Math.min(first, bytes), Math.max(0, bytes - first)];
    let length = 0;
    for (const part of parts.filter((part) => part > 0)) {
      const to = new BigUint64Array([addressOf(this.#memory) + BigInt(length), BigInt(part)]);
      const from = new BigUint64Array([address + BigInt(length), BigInt(part)]);
      const got = libc().process_vm_readv(pid, to, 1n, from, 1n, 0n);
      if (got <= 0n) break;
      length += Number(got);
    }
    return length > 0 ? this.#memory.subarray(0, length) : undefined;
  }
}

/**
 * Makes a new file, with the flags of another program's call.
 * @throws {Error} it exists, or cannot be made
 */
export function makeFile(path: string, flags: number, mode: number): Disposable & { fd: number } {
  const text = new TextEncoder().encode(`${path}\0`);
  const fd = libc().open(text, flags | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) throw new Error(`cannot make ${path}`);
  return { fd, [Symbol.dispose]: () => void libc().close(fd) };
}

function archOf(): CallArch {
  const arch = ARCHES[Deno.build.arch];
  if (Deno.build.os !== "linux" || !arch) throw new Error("no such filter on this system");
  return arch;
}
