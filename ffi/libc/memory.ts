/** Memory of machines: anonymous files that other programs open by descriptor, filled from files with holes. Linux only. */

const MFD_CLOEXEC = 1;
const O_RDONLY = 0, O_WRONLY = 1, O_CREAT = 0o100, O_EXCL = 0o200;
const O_CLOEXEC = 0o2000000;
const SEEK_SET = 0, SEEK_END = 2, SEEK_DATA = 3, SEEK_HOLE = 4;
/** Most `bytes` of one call; the kernel copies no more than 2 GiB at once. */
const COPY_MAX = 1 << 30;

function loadLibc() {
  return Deno.dlopen("libc.so.6", {
    memfd_create: { parameters: ["buffer", "u32"], result: "i32" },
    open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
    close: { parameters: ["i32"], result: "i32" },
    ftruncate: { parameters: ["i32", "i64"], result: "i32" },
    fsync: { parameters: ["i32"], result: "i32", nonblocking: true },
    lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
    sendfile: { parameters: ["i32", "i32", "pointer", "usize"], result: "i64", nonblocking: true },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/** Memory without a name in any file system: it is gone with the last process that has it open. */
export class MemoryFile {
  /** opens it in other processes of this user, while this one lives and has not closed it */
  readonly path: string;
  readonly #fd: number;
  readonly #bytes: number;
  #isClosed = false;
  /** copies under way, which need the descriptor */
  #copies = 0;

  /** @throws {Error} the kernel gives no such file */
  constructor(name: string, bytes: number) {
    libc ??= loadLibc();
    this.#fd = libc.symbols.memfd_create(text(name), MFD_CLOEXEC);
    if (this.#fd < 0) throw new Error("the kernel gives no anonymous file");
    this.#bytes = bytes;
    this.path = `/proc/${Deno.pid}/fd/${this.#fd}`;
    if (libc.symbols.ftruncate(this.#fd, BigInt(bytes)) !== 0) {
      this.close();
      throw new Error(`the kernel gives no anonymous file of ${bytes} bytes`);
    }
  }

  /** Fills it with a file's content; holes stay holes. @throws {Error} the file is missing, or of another size */
  async read(path: string): Promise<void> {
    const from = open(path, O_RDONLY);
    try {
      const size = await this.#copy(from, this.#fd);
      if (size !== this.#bytes) throw new Error(`${path} has ${size} bytes instead of ${this.#bytes}`);
    } finally {
      libc!.symbols.close(from);
    }
  }

  /** Writes it to a new file of mode 0600, durably; what was never touched becomes a hole. @throws {Error} e.g. no space */
  async write(path: string): Promise<void> {
    const to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
    try {
      if (libc!.symbols.ftruncate(to, BigInt(this.#bytes)) !== 0) throw new Error(`cannot write ${path}`);
      await this.#copy(this.#fd, to);
      if (await libc!.symbols.fsync(to) !== 0) throw new Error(`cannot write ${path}`);
    } finally {
      libc!.symbols.close(to);
    }
  }

  /** Ends copies under way, then frees the descriptor: until then its number must not become another file's. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#copies === 0) libc!.symbols.close(this.#fd);
  }

  /** @returns size of the source, in `bytes` */
  async #copy(from: number, to: number): Promise<number> {
    this.#requireOpen();
    this.#copies++;
    try {
      return await copyData(from, to, () => this.#requireOpen());
    } finally {
      this.#copies--;
      if (this.#isClosed && this.#copies === 0) libc!.symbols.close(this.#fd);
    }
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new Error("the memory was closed");
  }
}

/**
 * Copies all that is no hole to the same place.
 *
 * @param goOn called after each step; throws to end the copy
 * @returns size of the source, in `bytes`
 */
async function copyData(from: number, to: number, goOn: () => void): Promise<number> {
  const { lseek, sendfile } = libc!.symbols;
  const size = lseek(from, 0n, SEEK_END);
  // Beyond the last data there is none to be found.
  for (let at = lseek(from, 0n, SEEK_DATA); at >= 0n;) {
    const end = lseek(from, at, SEEK_HOLE);
    lseek(from, at, SEEK_SET);
    lseek(to, at, SEEK_SET);
    while (at < end) {
      const copied = await sendfile(to, from, null, BigInt(Math.min(Number(end - at), COPY_MAX)));
      if (copied <= 0n) {
        throw new Error("the copy of a machine's memory broke off: is the disk or the memory full?");
      }
      at += copied;
      goOn();
    }
    at = lseek(from, end, SEEK_DATA);
  }
  return Number(size);
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
