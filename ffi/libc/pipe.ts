/** Pipes to and from a program; waiting for this process's end needs no thread. Linux only. */
import { O_CLOEXEC } from "./flags.ts";
import { callError, errno } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";

const O_NONBLOCK = 0o4000;
const F_SETFL = 4;
const EINTR = 4, EAGAIN = 11;
const FIONREAD = 0x541b;
const POLLIN = 1, POLLHUP = 16;
/** Most `bytes` dropped at once. */
const DROP_CHUNK = 64 * 1024;

function loadLibc() {
  return loadFunctions({
    pipe2: { parameters: ["buffer", "i32"], result: "i32" },
    fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
    ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
    poll: { parameters: ["buffer", "u64", "i32"], result: "i32" },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let loaded: { libc: ReturnType<typeof loadLibc>; readiness: Readiness } | undefined;
const shared = () => loaded ??= { libc: loadLibc(), readiness: new Readiness() };

/** Readiness of all files that this process waits for. */
export function readiness(): Readiness {
  return shared().readiness;
}

/** State of a file: whether it has data to read, and whether all holders of the other side have closed it. */
export function stateOf(fd: number): { isReadable: boolean; isHungUp: boolean } {
  const polled = new DataView(new ArrayBuffer(8));
  polled.setInt32(0, fd, true);
  polled.setInt16(4, POLLIN, true);
  shared().libc.poll(new Uint8Array(polled.buffer), 1n, 0);
  const events = polled.getInt16(6, true);
  return { isReadable: (events & POLLIN) !== 0, isHungUp: (events & POLLHUP) !== 0 };
}

/** This process's end of a pipe. */
export class PipeEnd {
  readonly #fd: number;
  readonly #shared = shared();
  #isClosed = false;
  /** perhaps: the last read got as much as it could take */
  #hasMore = false;
  /** `bytes` until the end for its reader, once that is settled */
  #left: number | undefined;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** True if a process can still write to it. */
  get isHeld(): boolean {
    return !this.#isClosed && !stateOf(this.#fd).isHungUp;
  }

  /** Reads and returns the number of `bytes`; null at the end, and once it was closed or left. */
  async read(into: Uint8Array<ArrayBuffer>): Promise<number | null> {
    if (this.#isEnded) return null;
    let count = this.#hasMore ? this.#tryRead(into) : -1;
    if (count < 0) {
      await this.#shared.readiness.wait(this.#fd, READABLE);
      if (this.#isEnded) return null;
      count = this.#tryRead(into);
    }
    if (count <= 0) {
      this.close();
      return null;
    }
    if (this.#left === 0) this.#drop();
    return count;
  }

  get #isEnded(): boolean {
    return this.#isClosed || this.#left === 0;
  }

  #tryRead(into: Uint8Array<ArrayBuffer>): number {
    const wanted = into.subarray(0, this.#left);
    const count = Number(this.#shared.libc.read(this.#fd, wanted, BigInt(wanted.length)));
    this.#hasMore = count === wanted.length;
    if (this.#left !== undefined && count > 0) this.#left -= count;
    return count;
  }

  /**
   * Ends the stream for its reader after the bytes that the pipe holds now. Later ones are read and dropped:
   * the processes that have the pipe open can go on writing.
   */
  leave(): void {
    if (this.#isClosed || this.#left !== undefined) return;
    const count = new Int32Array(1);
    this.#shared.libc.ioctl(this.#fd, BigInt(FIONREAD), new Uint8Array(count.buffer));
    this.#left = count[0];
    if (this.#left > 0) return;
    this.#shared.readiness.forget(this.#fd);
    this.#drop();
  }

  async #drop(): Promise<void> {
    const { libc, readiness } = this.#shared;
    const chunk = new Uint8Array(DROP_CHUNK);
    for (let count = 1; count > 0 && !this.#isClosed;) {
      await readiness.wait(this.#fd, READABLE);
      if (!this.#isClosed) count = Number(libc.read(this.#fd, chunk, BigInt(chunk.length)));
    }
    this.close();
  }

  /** Writes all of `from`. @throws {Error} it has no reader, or was closed */
  async write(from: Uint8Array<ArrayBuffer>): Promise<void> {
    const { libc, readiness } = this.#shared;
    for (let at = 0; at < from.length;) {
      if (this.#isClosed) throw new Error("the pipe is closed");
      const rest = from.subarray(at);
      const count = Number(libc.write(this.#fd, rest, BigInt(rest.length)));
      if (count > 0) at += count;
      else if (!worksLater()) throw callError("write");
      else await readiness.wait(this.#fd, WRITABLE);
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#shared.readiness.forget(this.#fd);
    this.#shared.libc.close(this.#fd);
  }
}

/** A pipe: this process's end of it, and the program's end as the number of a file. */
export interface Pipe {
  own: PipeEnd;
  other: number;
}

/** @param owns the end of this process @throws {CallError} */
export function openPipe(owns: "reading" | "writing"): Pipe {
  const { libc } = shared();
  const ends = new Int32Array(2);
  if (libc.pipe2(new Uint8Array(ends.buffer), O_CLOEXEC) < 0) throw callError("pipe2");
  const [own, other] = owns === "reading" ? ends : ends.toReversed();
  // Of this end alone: the program's stays as programs expect it.
  libc.fcntl(own, F_SETFL, O_NONBLOCK);
  return { own: new PipeEnd(own), other };
}

/** Closes the program's end, once it has it. */
export function closeOther({ other }: Pipe): void {
  shared().libc.close(other);
}

/** True if the call that just failed will work later. */
function worksLater(): boolean {
  const failed = errno();
  return failed === EAGAIN || failed === EINTR;
}

const EPOLL_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1, EPOLL_CTL_DEL = 2, EPOLL_CTL_MOD = 3;
const EPOLLONESHOT = 2 ** 30;
/** Place of the data in struct epoll_event, and its size, in `bytes`: on x86-64 alone it is packed. */
const DATA_AT = Deno.build.arch === "x86_64" ? 4 : 8;
const EVENT_BYTES = DATA_AT + 8;
/** Most files reported at once. */
const EVENTS_MAX = 64;

/** Events to wait for. The end of a pipe's other side counts as both. */
export const READABLE = 1, WRITABLE = 4;

function loadEpoll() {
  return loadFunctions({
    epoll_create1: { parameters: ["i32"], result: "i32" },
    epoll_ctl: { parameters: ["i32", "i32", "i32", "buffer"], result: "i32" },
    epoll_wait: { parameters: ["i32", "buffer", "i32", "i32"], result: "i32", nonblocking: true },
  });
}

/** Waits for files of this process to have something, all in one thread; each file has one waiter. */
class Readiness {
  readonly #libc = loadEpoll();
  readonly #epoll: number;
  readonly #known = new Set<number>();
  readonly #waiting = new Map<number, () => void>();
  readonly #event = new DataView(new ArrayBuffer(EVENT_BYTES));
  readonly #events = new DataView(new ArrayBuffer(EVENT_BYTES * EVENTS_MAX));
  #isFollowing = false;

  /** @throws {CallError} */
  constructor() {
    this.#epoll = this.#libc.epoll_create1(EPOLL_CLOEXEC);
    if (this.#epoll < 0) throw callError("epoll_create1");
  }

  /** Waits until a file is readable or writable, or is forgotten. @throws {CallError} */
  wait(fd: number, wanted: typeof READABLE | typeof WRITABLE): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(fd, resolve);
    this.#event.setUint32(0, wanted | EPOLLONESHOT, true);
    this.#event.setInt32(DATA_AT, fd, true);
    this.#control(this.#known.has(fd) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd);
    this.#known.add(fd);
    if (!this.#isFollowing) this.#follow();
    return promise;
  }

  /** Ends the wait for a file that is about to be closed. */
  forget(fd: number): void {
    if (this.#known.delete(fd)) this.#control(EPOLL_CTL_DEL, fd);
    this.#wake(fd);
  }

  #control(operation: number, fd: number): void {
    const event = new Uint8Array(this.#event.buffer);
    if (this.#libc.epoll_ctl(this.#epoll, operation, fd, event) < 0) throw callError("epoll_ctl");
  }

  async #follow(): Promise<void> {
    this.#isFollowing = true;
    const bytes = new Uint8Array(this.#events.buffer);
    while (this.#waiting.size > 0) {
      // One that fails was interrupted.
      const count = await this.#libc.epoll_wait(this.#epoll, bytes, EVENTS_MAX, -1);
      for (let at = 0; at < count; at++) this.#wake(this.#events.getInt32(at * EVENT_BYTES + DATA_AT, true));
    }
    this.#isFollowing = false;
  }

  #wake(fd: number): void {
    const resolve = this.#waiting.get(fd);
    this.#waiting.delete(fd);
    resolve?.();
  }
}
