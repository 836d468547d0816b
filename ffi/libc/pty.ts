/** Pseudo-terminals through libc, since Deno has no API for them. Linux only. */
import { O_CLOEXEC } from "./flags.ts";
import { loadFunctions } from "./load.ts";
import { READABLE, readiness, stateOf } from "./pipe.ts";

const O_RDWR = 2;
const O_NOCTTY = 0o400;
/** Programs that this process starts must not inherit a terminal of another program. */
const TIOCGPTN = 0x80045430;
const TIOCSPTLCK = 0x40045431;
const TIOCSWINSZ = 0x5414;
/** More `bytes` than the kernel holds of a terminal's output: 4096 in its line, and 8192 on the way there. */
const HELD_BYTES = 64 * 1024;

function loadLibc() {
  return loadFunctions({
    open: { parameters: ["buffer", "i32"], result: "i32" },
    ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize", nonblocking: true },
    write: { parameters: ["i32", "buffer", "usize"], result: "isize", nonblocking: true },
    close: { parameters: ["i32"], result: "i32" },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/** Master side of a pseudo-terminal. */
export class PseudoTerminal {
  /** device of the slave side, `/dev/pts/N` */
  readonly device: string;
  #libc = libc ??= loadLibc();
  #fd: number;
  /** `bytes` until the end for its reader at most, once that is settled */
  #left: number | undefined;
  #isClosed = false;

  /** @throws {Error} no pseudo-terminal is free */
  constructor() {
    const path = new TextEncoder().encode("/dev/ptmx\0");
    this.#fd = this.#libc.open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (this.#fd < 0) throw new Error("no pseudo-terminal is free");
    const unlock = new Int32Array([0]);
    const number = new Int32Array(1);
    this.#libc.ioctl(this.#fd, BigInt(TIOCSPTLCK), bytes(unlock));
    this.#libc.ioctl(this.#fd, BigInt(TIOCGPTN), bytes(number));
    this.device = `/dev/pts/${number[0]}`;
  }

  resize(cols: number, rows: number): void {
    this.#libc.ioctl(this.#fd, BigInt(TIOCSWINSZ), bytes(new Uint16Array([rows, cols, 0, 0])));
  }

  /**
   * Reads and returns the number of `bytes`; null while no program has the slave side open,
   * and at the end once it was left.
   */
  async read(into: Uint8Array<ArrayBuffer>): Promise<number | null> {
    if (this.#left === undefined) await readiness().wait(this.#fd, READABLE);
    if (this.#left !== undefined && (this.#left <= 0 || !stateOf(this.#fd).isReadable)) return null;
    const count = Number(await this.#libc.read(this.#fd, into, BigInt(into.length)));
    if (this.#left !== undefined) this.#left -= count;
    return count > 0 ? count : null;
  }

  /** Ends the output for its reader after the available bytes, even if a program has the slave side open. */
  leave(): void {
    if (this.#isClosed || this.#left !== undefined) return;
    this.#left = HELD_BYTES;
    readiness().forget(this.#fd);
  }

  async write(from: Uint8Array<ArrayBuffer>): Promise<number> {
    const count = Number(await this.#libc.write(this.#fd, from, BigInt(from.length)));
    if (count < 0) throw new Error("the pseudo-terminal is closed");
    return count;
  }

  close(): void {
    this.#isClosed = true;
    readiness().forget(this.#fd);
    this.#libc.close(this.#fd);
  }
}

function bytes(view: ArrayBufferView<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}
