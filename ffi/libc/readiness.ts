/** Waits for files of this process to have something, for as many as there are in one thread. Linux only. */
import { callError } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";

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

function loadLibc() {
  return loadFunctions({
    epoll_create1: { parameters: ["i32"], result: "i32" },
    epoll_ctl: { parameters: ["i32", "i32", "i32", "buffer"], result: "i32" },
    epoll_wait: { parameters: ["i32", "buffer", "i32", "i32"], result: "i32", nonblocking: true },
  });
}

/** Files by number, each with one waiter. */
export class Readiness {
  readonly #libc = loadLibc();
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
