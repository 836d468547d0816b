/** Pipes to and from a program, for this process's end of which nobody waits in a thread. Linux only. */
import { O_CLOEXEC } from "./flags.ts";
import { callError, errno } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";
import { READABLE, Readiness, WRITABLE } from "./readiness.ts";

const O_NONBLOCK = 0o4000;
const F_SETFL = 4;
const EINTR = 4, EAGAIN = 11;

function loadLibc() {
  return loadFunctions({
    pipe2: { parameters: ["buffer", "i32"], result: "i32" },
    fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let loaded: { libc: ReturnType<typeof loadLibc>; readiness: Readiness } | undefined;
const shared = () => loaded ??= { libc: loadLibc(), readiness: new Readiness() };

/** What is ready, of all files of this process that are waited for. */
export function readiness(): Readiness {
  return shared().readiness;
}

/** This process's end of a pipe. */
export class PipeEnd {
  readonly #fd: number;
  readonly #shared = shared();
  #isClosed = false;
  /** perhaps: the last read got as much as it could take */
  #hasMore = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Reads and returns the number of `bytes`; null at the end, also once it was closed. */
  async read(into: Uint8Array<ArrayBuffer>): Promise<number | null> {
    if (this.#isClosed) return null;
    const { libc, readiness } = this.#shared;
    let count = this.#hasMore ? Number(libc.read(this.#fd, into, BigInt(into.length))) : -1;
    if (count < 0) {
      await readiness.wait(this.#fd, READABLE);
      if (this.#isClosed) return null;
      count = Number(libc.read(this.#fd, into, BigInt(into.length)));
    }
    this.#hasMore = count === into.length;
    if (count > 0) return count;
    this.close();
    return null;
  }

  /** Writes all of `from`. @throws {Error} nobody reads it, or it was closed */
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

/** A pipe: this process's end of it, and the one for a program, as the number of a file. */
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

/** Whether the call that just failed will work later. */
function worksLater(): boolean {
  const failed = errno();
  return failed === EAGAIN || failed === EINTR;
}
