/** Files that are read when they have data, by poll(2). Linux only. */
import { O_CLOEXEC } from "./flags.ts";
import { loadFunctions } from "./load.ts";

const O_NONBLOCK = 0o4000;
const POLLIN = 1, POLLPRI = 2;
/** Size of struct pollfd, in `bytes`. */
const POLLFD_BYTES = 8;

function loadLibc() {
  return loadFunctions({
    open: { parameters: ["buffer", "i32"], result: "i32" },
    poll: { parameters: ["buffer", "u64", "i32"], result: "i32", nonblocking: true },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  });
}

/** Files that stay open as long as the program runs. */
export class PolledFiles {
  readonly #libc = loadLibc();
  readonly #fds: number[];
  readonly #polled: Uint8Array<ArrayBuffer>;

  /**
   * @param awaited input, or a change, of files that have always input, such as mountinfo(5)
   * @throws {Error} one of them cannot be opened
   */
  constructor(paths: readonly string[], awaited: "input" | "change" = "input") {
    this.#fds = paths.map((path) => {
      const fd = this.#libc.open(new TextEncoder().encode(`${path}\0`), O_NONBLOCK | O_CLOEXEC);
      if (fd < 0) throw new Error(`${path} cannot be opened`);
      return fd;
    });
    this.#polled = new Uint8Array(this.#fds.length * POLLFD_BYTES);
    const view = new DataView(this.#polled.buffer);
    this.#fds.forEach((fd, at) => {
      view.setInt32(at * POLLFD_BYTES, fd, true);
      view.setInt16(at * POLLFD_BYTES + 4, awaited === "input" ? POLLIN : POLLPRI, true);
    });
  }

  /** Number of files. */
  get count(): number {
    return this.#fds.length;
  }

  /** Waits until one of them is ready, or for `ms`. */
  async readable(ms: number): Promise<void> {
    await this.#libc.poll(this.#polled, BigInt(this.#fds.length), ms);
  }

  /** Reads the data of file number `at`. @returns the number of `bytes`, 0 for none */
  read(at: number, into: Uint8Array<ArrayBuffer>): number {
    return Math.max(0, Number(this.#libc.read(this.#fds[at], into, BigInt(into.length))));
  }
}
