/**
 * Memory of machines: anonymous files that other programs open by descriptor, filled
 * from files with holes. Linux only.
 */
import { O_CLOEXEC } from "./flags.ts";

const MFD_CLOEXEC = 1;
const PROT_READ = 1, MAP_SHARED = 1, MADV_POPULATE_READ = 22;
const O_RDONLY = 0, O_WRONLY = 1, O_CREAT = 0o100, O_EXCL = 0o200;
const SEEK_SET = 0, SEEK_END = 2, SEEK_DATA = 3, SEEK_HOLE = 4;
/** `bytes` of a block of stat(2). */
const BLOCK = 512;
/** Most `bytes` of one call; the kernel copies no more than 2 GiB at once. */
const COPY_MAX = 1 << 30;
/**
 * Parts of a copy at a time, and most `bytes` of each; the processors of a machine that stands
 * still have nothing else to do.
 */
const LANES = 2;
const PART_MAX = 32 * 1024 * 1024;
/** Size of the blocks that are left out of a file when all of their bytes are zero, in `bytes`. */
const HOLE = 64 * 1024;
/** Most `bytes` of a copy that costs less than handing it to another thread. */
const SMALL = 256 * 1024;

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    memfd_create: { parameters: ["buffer", "u32"], result: "i32" },
    open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
    ftruncate: { parameters: ["i32", "i64"], result: "i32" },
    fsync: { parameters: ["i32"], result: "i32", nonblocking: true },
    lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
    sendfile: { parameters: ["i32", "i32", "pointer", "usize"], result: "i64", nonblocking: true },
    fallocate: { parameters: ["i32", "i32", "i64", "i64"], result: "i32", nonblocking: true },
    mmap: { parameters: ["pointer", "usize", "i32", "i32", "i32", "i64"], result: "pointer" },
    munmap: { parameters: ["pointer", "usize"], result: "i32", nonblocking: true },
    madvise: { parameters: ["pointer", "usize", "i32"], result: "i32", nonblocking: true },
    pwrite: { parameters: ["i32", "pointer", "usize", "i64"], result: "i64" },
    pwriteElsewhere: {
      name: "pwrite",
      parameters: ["i32", "pointer", "usize", "i64"],
      result: "i64",
      nonblocking: true,
    },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/** Memory without a name in any file system: it is gone with the last process that has it open. */
export class MemoryFile {
  /** opens it in this process, and in one that has {@linkcode descriptor} open under the same number */
  readonly path: string;
  readonly #fd: number;
  readonly #bytes: number;
  #isClosed = false;
  /** copies in progress, which need the descriptor */
  #copies = 0;

  /** @throws {Error} the kernel gives no such file */
  constructor(name: string, bytes: number) {
    libc ??= loadLibc();
    this.#fd = libc.symbols.memfd_create(text(name), MFD_CLOEXEC);
    if (this.#fd < 0) throw new Error("the kernel gives no anonymous file");
    this.#bytes = bytes;
    this.path = `/proc/self/fd/${this.#fd}`;
    if (libc.symbols.ftruncate(this.#fd, BigInt(bytes)) !== 0) {
      this.close();
      throw new Error(`the kernel gives no anonymous file of ${bytes} bytes`);
    }
  }

  /** Number of the open file. */
  get descriptor(): number {
    return this.#fd;
  }

  /** Its size without holes, in `bytes`. */
  async allocated(): Promise<number> {
    this.#requireOpen();
    return ((await Deno.stat(this.path)).blocks ?? 0) * BLOCK;
  }

  /**
   * Fills it with a file's content; holes stay holes.
   * @throws {Error} the file is missing, or of another size
   */
  async read(path: string): Promise<void> {
    const from = open(path, O_RDONLY);
    try {
      const size = await this.#copy(from, this.#fd);
      if (size !== this.#bytes) throw new Error(`${path} has ${size} bytes instead of ${this.#bytes}`);
    } finally {
      libc!.symbols.close(from);
    }
  }

  /**
   * Writes it durably to a new file, mode 0600; blocks of zeros become holes.
   * @throws {Error} e.g. no space
   */
  async write(path: string): Promise<void> {
    await this.#write(path, true);
  }

  async #write(path: string, durably: boolean): Promise<void> {
    const to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
    try {
      if (libc!.symbols.ftruncate(to, BigInt(this.#bytes)) !== 0) throw new Error(`cannot write ${path}`);
      await this.#copyUsed(to);
      if (durably && await libc!.symbols.fsync(to) !== 0) throw new Error(`cannot write ${path}`);
    } finally {
      libc!.symbols.close(to);
    }
  }

  /**
   * Copies all but blocks of zeros to the same place of a file with holes. A booted guest has a
   * tenth of its memory in pages that it was given empty and did not use: every machine that
   * starts from the file would get them.
   */
  async #copyUsed(to: number): Promise<void> {
    const map = this.#map();
    try {
      await this.#eachPart(async (start, bytes) => {
        for (let at = start; at < start + bytes; at += PART_MAX) {
          const size = Math.min(start + bytes - at, PART_MAX);
          const part = Deno.UnsafePointer.offset(map, at)!;
          // Elsewhere: it takes longer than to look at it.
          await libc!.symbols.madvise(part, BigInt(size), MADV_POPULATE_READ);
          const words = new Uint32Array(Deno.UnsafePointerView.getArrayBuffer(part, size));
          for (const [from, end] of usedRuns(words)) {
            await sendRange(this.#fd, to, at + from, at + end, () => this.#requireOpen());
          }
        }
      });
    } finally {
      await libc!.symbols.munmap(map, BigInt(this.#bytes));
    }
  }

  #map(): Deno.PointerObject {
    this.#requireOpen();
    const map = libc!.symbols.mmap(null, BigInt(this.#bytes), PROT_READ, MAP_SHARED, this.#fd, 0n);
    if (map === null) throw new Error("the kernel maps no memory");
    return map;
  }

  /** Prepares a copy, to be taken in one go later. @throws {Error} there is not enough memory for it */
  async prepareCopy(): Promise<MemoryCopy> {
    const copy = new MemoryFile("sbx-copy", this.#bytes);
    const { munmap, madvise, fallocate } = libc!.symbols;
    let map: Deno.PointerObject | undefined;
    const release = async () => {
      copy.close();
      if (map) await munmap(map, BigInt(this.#bytes));
    };
    try {
      const mapped = map = this.#map();
      // Room is found and pages are mapped before the copy: both together take twice as long as copying.
      await this.#eachPart(async (at, bytes) => {
        if (await fallocate(copy.#fd, 0, BigInt(at), BigInt(bytes)) !== 0) throw full();
        await madvise(Deno.UnsafePointer.offset(mapped, at), BigInt(bytes), MADV_POPULATE_READ);
      });
      return {
        take: () => this.#copyInto(copy, mapped),
        write: (path) => copy.#write(path, false),
        release,
      };
    } catch (error) {
      await release();
      throw error;
    }
  }

  /** Copies from where this memory is mapped, on as many processors as there are lanes. */
  async #copyInto(copy: MemoryFile, map: Deno.PointerObject): Promise<void> {
    const parts: [at: number, bytes: number][] = [];
    await this.#eachPart((at, bytes) => {
      for (let done = 0; done < bytes; done += PART_MAX) {
        parts.push([at + done, Math.min(bytes - done, PART_MAX)]);
      }
    });
    const lane = async () => {
      for (let part = parts.pop(); part; part = parts.pop()) {
        await copy.#put(Deno.UnsafePointer.offset(map, part[0])!, ...part);
      }
    };
    await this.#keepOpen(async () => void await Promise.all(Array.from({ length: LANES }, lane)));
  }

  /** Writes bytes of the memory of this process to a place. */
  async #put(from: Deno.PointerObject, at: number, bytes: number): Promise<void> {
    const { pwrite, pwriteElsewhere } = libc!.symbols;
    for (let done = 0; done < bytes;) {
      const size = Math.min(bytes - done, COPY_MAX);
      const write = size <= SMALL ? pwrite : pwriteElsewhere;
      const written = await write(
        this.#fd,
        Deno.UnsafePointer.offset(from, done),
        BigInt(size),
        BigInt(at + done),
      );
      if (written <= 0n) throw full();
      done += Number(written);
    }
  }

  /** Works on each part that is no hole, in order. */
  async #eachPart(work: (at: number, bytes: number) => Promise<void> | void): Promise<void> {
    await this.#keepOpen(async () => {
      const { lseek } = libc!.symbols;
      for (let at = lseek(this.#fd, 0n, SEEK_DATA); at >= 0n;) {
        const end = lseek(this.#fd, at, SEEK_HOLE);
        await work(Number(at), Number(end - at));
        this.#requireOpen();
        at = lseek(this.#fd, end, SEEK_DATA);
      }
    });
  }

  /**
   * Ends copies under way, then frees the descriptor: until then its number must not become another file's.
   */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#copies === 0) libc!.symbols.close(this.#fd);
  }

  /** @returns size of the source, in `bytes` */
  async #copy(from: number, to: number): Promise<number> {
    return await this.#keepOpen(() => copyData(from, to, () => this.#requireOpen()));
  }

  /** Keeps the descriptor during a copy. */
  async #keepOpen<T>(copy: () => Promise<T>): Promise<T> {
    this.#requireOpen();
    this.#copies++;
    try {
      return await copy();
    } finally {
      this.#copies--;
      if (this.#isClosed && this.#copies === 0) libc!.symbols.close(this.#fd);
    }
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new Error("the memory was closed");
  }
}

/** A copy of constantly changing memory: of one moment, in memory of its own until it is written. */
export interface MemoryCopy {
  /**
   * Copies the current memory; no writes are allowed meanwhile.
   * @throws {Error} there is too little memory
   */
  take(): Promise<void>;
  /** as {@linkcode MemoryFile.write}, but not durably */
  write(path: string): Promise<void>;
  /** frees the copy's own memory */
  release(): Promise<void>;
}

/**
 * Copies all that is no hole to the same place.
 *
 * @param goOn called after each step; throws to end the copy
 * @returns size of the source, in `bytes`
 */
async function copyData(from: number, to: number, goOn: () => void): Promise<number> {
  const { lseek } = libc!.symbols;
  const size = lseek(from, 0n, SEEK_END);
  // Fails beyond the last data.
  for (let at = lseek(from, 0n, SEEK_DATA); at >= 0n;) {
    const end = lseek(from, at, SEEK_HOLE);
    await sendRange(from, to, Number(at), Number(end), goOn);
    at = lseek(from, end, SEEK_DATA);
  }
  return Number(size);
}

/** Copies the bytes from `start` to `end` to the same place. @param goOn as above */
async function sendRange(
  from: number,
  to: number,
  start: number,
  end: number,
  goOn: () => void,
): Promise<void> {
  const { lseek, sendfile } = libc!.symbols;
  lseek(from, BigInt(start), SEEK_SET);
  lseek(to, BigInt(start), SEEK_SET);
  for (let at = start; at < end;) {
    const copied = await sendfile(to, from, null, BigInt(Math.min(end - at, COPY_MAX)));
    if (copied <= 0n) throw full();
    at += Number(copied);
    goOn();
  }
}

/**
 * The runs of blocks that are not all zero, in `bytes` from the begin of `words`;
 * the last block may be shorter.
 */
export function* usedRuns(words: Uint32Array): Generator<[start: number, end: number]> {
  const block = HOLE / words.BYTES_PER_ELEMENT;
  let start = -1;
  for (let at = 0; at < words.length; at += block) {
    const isUsed = isAnyUsed(words, at, Math.min(at + block, words.length));
    if (isUsed && start < 0) start = at;
    if (isUsed || start < 0) continue;
    yield [start * words.BYTES_PER_ELEMENT, at * words.BYTES_PER_ELEMENT];
    start = -1;
  }
  if (start >= 0) yield [start * words.BYTES_PER_ELEMENT, words.byteLength];
}

function isAnyUsed(words: Uint32Array, at: number, end: number): boolean {
  for (; at < end; at++) if (words[at] !== 0) return true;
  return false;
}

function full(): Error {
  return new Error("the copy of a machine's memory broke off: is the disk or the memory full?");
}

function open(path: string, flags: number, mode = 0): number {
  libc ??= loadLibc();
  const fd = libc.symbols.open(text(path), flags | O_CLOEXEC, mode);
  if (fd < 0) throw new Error(`cannot open ${path}`);
  return fd;
}

function text(value: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${value}\0`);
}
