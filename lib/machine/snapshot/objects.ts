/** Contents of files by their hash: read once, hashed, and written elsewhere on the way; holes stay holes. */
import type { FileStat } from "../../../ffi/libc/stat.ts";
import { openFolder } from "../../../ffi/host/files.ts";
import type { Descriptor, Folder } from "../../../ffi/host/handle.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Pace } from "./pace.ts";
import { bytesOf, pathOf } from "./entry.ts";
import { Blake3Hasher } from "@napi-rs/blake-hash";
import { Buffer } from "node:buffer";

/** `bytes` from which a file with holes is stored with them. */
const SPARSE_MIN = 1024 * 1024;

/**
 * Contents of files by their hash. They belong to the host alone: none is a hard link of a file of the guest.
 */
export class Objects implements Disposable {
  readonly #folder: Folder;
  readonly #made = new Set<string>();
  /** this file system shares no blocks between files */
  #cannotClone = false;

  /** @param path folder, which exists */
  constructor(path: string) {
    this.#folder = openFolder(path);
  }

  /** True if the content of a file can be stored without room of its own: blocks are shared. */
  canClone(file: Descriptor): boolean {
    const temporary = bytesOf(`tmp-${crypto.randomUUID()}`);
    using copy = this.#folder.create(temporary);
    try {
      return this.#clone(copy, file);
    } finally {
      this.#removeQuietly(temporary);
    }
  }

  /**
   * Stores the content of an open file.
   *
   * @param store false: only its name is wanted
   * @returns name of the object
   * @throws {CallError} e.g. `ENOSPC`; nothing is stored then
   */
  async add(file: Descriptor, stat: FileStat, pace: Pace, store = true): Promise<string> {
    const form = formOf(stat);
    if (form === "plain" && stat.size <= CHUNK) return this.#addSmall(file, stat.size, store);
    if (!store) return await digest(file, { form, size: stat.size, pace });
    const temporary = bytesOf(`tmp-${crypto.randomUUID()}`);
    using copy = this.#folder.create(temporary);
    try {
      const isCloned = this.#clone(copy, file);
      const name = await digest(isCloned ? copy : file, {
        form,
        size: stat.size,
        to: isCloned ? undefined : copy,
        pace,
      });
      if (isCloned) copy.truncate(stat.size);
      this.#place(temporary, name, copy.stat().size);
      return name;
    } catch (error) {
      this.#removeQuietly(temporary);
      throw error;
    }
  }

  /**
   * Copies an object into a new file, and checks it on the way.
   *
   * @throws {SbxError} `snapshot.damaged`: missing, or its content does not match its name
   */
  async copy(name: string, size: number, to: Descriptor, pace: Pace): Promise<void> {
    using file = this.#open(name);
    const isCloned = this.#clone(to, file);
    const found = await digest(file, {
      form: name.endsWith("s") ? "sparse" : "plain",
      size: file.stat().size,
      to: isCloned ? undefined : to,
      pace,
    });
    if (found !== name || file.stat().size !== size) throw damaged(name);
  }

  /** Removes every object that is not among `used`, and what broken-off work left. @returns their number */
  async sweep(used: ReadonlySet<string>, pace: Pace): Promise<number> {
    let removed = 0;
    for (const prefix of [...this.#folder.names()].map(pathOf)) {
      if (prefix.startsWith("tmp-")) {
        this.#folder.remove(bytesOf(prefix));
        continue;
      }
      using folder = this.#folder.folder(bytesOf(prefix));
      const rest = Array.from(folder.names(), pathOf).filter((name) => !used.has(prefix + name));
      for (const name of rest) {
        folder.remove(bytesOf(name));
        removed++;
        await pace.tick();
      }
    }
    return removed;
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
  }

  #addSmall(file: Descriptor, size: number, store: boolean): string {
    const buffer = new Uint8Array(size);
    const bytes = buffer.subarray(0, file.read(buffer, 0));
    const name = hashOf(bytes);
    if (!store || this.#has(name, bytes.length)) return name;
    const temporary = bytesOf(`tmp-${crypto.randomUUID()}`);
    try {
      using copy = this.#folder.create(temporary);
      copy.write(bytes, 0);
      this.#place(temporary, name, bytes.length);
    } catch (error) {
      this.#removeQuietly(temporary);
      throw error;
    }
    return name;
  }

  #place(temporary: Uint8Array<ArrayBuffer>, name: string, size: number): void {
    if (this.#has(name, size)) return this.#folder.remove(temporary);
    const prefix = name.slice(0, 2);
    if (!this.#made.has(prefix)) {
      if (!this.#folder.statOf(bytesOf(prefix))) this.#folder.makeFolder(bytesOf(prefix));
      this.#made.add(prefix);
    }
    this.#folder.rename(temporary, bytesOf(pathIn(name)));
  }

  /** True if an object is there, with its size: one that a power failure emptied is written again. */
  #has(name: string, size: number): boolean {
    return this.#folder.statOf(bytesOf(pathIn(name)))?.size === size;
  }

  #open(name: string): Descriptor {
    try {
      const file = this.#folder.openFile(bytesOf(pathIn(name)));
      if (file) return file;
    } catch {
      // Said below.
    }
    throw damaged(name);
  }

  #clone(to: Descriptor, from: Descriptor): boolean {
    if (this.#cannotClone) return false;
    const isCloned = to.cloneFrom(from);
    if (!isCloned) this.#cannotClone = true;
    return isCloned;
  }

  #removeQuietly(name: Uint8Array<ArrayBuffer>): void {
    try {
      this.#folder.remove(name);
    } catch {
      // Never made, or in place already; a sweep removes leftovers.
    }
  }
}

/** A file with holes that are worth keeping. */
export function formOf({ size, allocated }: Pick<FileStat, "size" | "allocated">): Form {
  return size >= SPARSE_MIN && allocated < size ? "sparse" : "plain";
}

function pathIn(name: string): string {
  return `${name.slice(0, 2)}/${name.slice(2)}`;
}

function damaged(name: string): SbxError {
  return new SbxError(
    "snapshot.damaged",
    `the content ${name.slice(0, 16)}… of the snapshot is missing or damaged`,
    {
      hint: "choose another snapshot; this one no longer has the file",
    },
  );
}

/** Size of one read, in `bytes`; a file of at most this size is one buffer. */
const CHUNK = 256 * 1024;
/** Size of the pieces of a file with holes that count as data, in `bytes`. */
const PIECE = 64 * 1024;
/** Begins the hash of a file with holes: its data by offset, independent of the file system's holes. */
const SPARSE_DOMAIN = "sbx.sparse.v1\0";

/** How the content of a file is hashed, and so stored. */
type Form = "plain" | "sparse";

/**
 * Hashes a file, and copies it to `to` on the way, if given.
 *
 * @param size `bytes` that the file had; a longer one is read no further
 * @returns name of its object: BLAKE3 as hex, and `s` for a file with holes
 */
async function digest(
  from: Descriptor,
  { form, size, to, pace }: { form: Form; size: number; to?: Descriptor; pace: Pace },
): Promise<string> {
  if (form === "sparse") return `${await digestSparse(from, size, to, pace)}s`;
  const hasher = new Blake3Hasher();
  const buffer = new Uint8Array(Math.min(CHUNK, Math.max(1, size)));
  for (let at = 0; at < size;) {
    const count = from.read(size - at < buffer.length ? buffer.subarray(0, size - at) : buffer, at);
    if (count === 0) break;
    const data = buffer.subarray(0, count);
    hasher.update(asBuffer(data));
    to?.write(data, at);
    at += count;
    await pace.tick();
  }
  return hasher.digest("hex");
}

async function digestSparse(from: Descriptor, size: number, to: Descriptor | undefined, pace: Pace) {
  const hasher = new Blake3Hasher();
  hasher.update(SPARSE_DOMAIN);
  hasher.update(number(size));
  const buffer = new Uint8Array(PIECE);
  let next = 0;
  for (
    let data = from.nextData(0);
    data && data.start < size;
    data = next < size ? from.nextData(next) : undefined
  ) {
    for (
      next = Math.max(next, data.start - data.start % PIECE);
      next < Math.min(data.end, size);
      next += PIECE
    ) {
      const piece = buffer.subarray(0, Math.min(PIECE, size - next));
      // A file that became shorter meanwhile has zeros there.
      piece.fill(0, from.read(piece, next));
      if (!isZero(piece)) {
        hasher.update(number(next));
        hasher.update(asBuffer(piece));
        to?.write(piece, next);
      }
      await pace.tick();
    }
  }
  to?.truncate(size);
  return hasher.digest("hex");
}

/** BLAKE3 of bytes in memory. */
export function hashOf(bytes: Uint8Array): string {
  const hasher = new Blake3Hasher();
  hasher.update(asBuffer(bytes));
  return hasher.digest("hex");
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function isZero(bytes: Uint8Array<ArrayBuffer>): boolean {
  const whole = bytes.length - bytes.length % 8;
  return new BigUint64Array(bytes.buffer, bytes.byteOffset, whole / 8).every((word) => word === 0n) &&
    bytes.subarray(whole).every((byte) => byte === 0);
}

/** Wraps bytes in the Buffer required by the library, without a copy. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
