/**
 * Copies of the files that a person brought into a VM, by their hash, from which `sbx learn --minimise`
 * starts its trials (docs/design/contracts/02-http.md §2, "Files"). They go with the VM.
 */
import { join } from "node:path";
import { freeBytes } from "../../base/disk/mod.ts";
import { asSbxError, ifFound, ignore } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";

/** Most `bytes` of one VM (docs/design/contracts/14-limits.md §14). */
const BROUGHT_MAX = 256 * 1024 * 1024;
/** `bytes` of the disk that copies leave free, as snapshots do. */
const KEEP_FREE = 512 * 1024 * 1024;
/** Begin of the name of a copy under way. */
const UNFINISHED = ".part-";

/** The folder of one VM's copies. A copy that fails or has no room is left out: the file itself goes on. */
export class BroughtFiles {
  readonly #dir: string;
  readonly #max: number;

  constructor(dir: string, max = BROUGHT_MAX) {
    this.#dir = dir;
    this.#max = max;
  }

  /** A copy of the bytes that come; to be disposed. */
  async begin(): Promise<BroughtCopy> {
    const path = join(this.#dir, UNFINISHED + crypto.randomUUID());
    try {
      await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
      const room = Math.min(this.#max - await this.#bytes(), await freeBytes(this.#dir) - KEEP_FREE);
      return new BroughtCopy(
        path,
        room,
        await Deno.open(path, { write: true, createNew: true, mode: 0o600 }),
      );
    } catch (error) {
      log.warn(asSbxError(error, `keeping a copy in "${this.#dir}"`));
      return new BroughtCopy(path, 0);
    }
  }

  async #bytes(): Promise<number> {
    let bytes = 0;
    for await (const { name } of Deno.readDir(this.#dir)) {
      bytes += (await ifFound(Deno.lstat(join(this.#dir, name))))?.size ?? 0;
    }
    return bytes;
  }
}

/** One copy under way. */
export class BroughtCopy implements AsyncDisposable {
  readonly #path: string;
  #room: number;
  #file?: Deno.FsFile;

  constructor(path: string, room: number, file?: Deno.FsFile) {
    this.#path = path;
    this.#room = room;
    this.#file = file;
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#room -= bytes.length;
    if (this.#room < 0) return await this.#drop();
    if (this.#file) await writeAll(this.#file, bytes).catch(() => this.#drop());
  }

  /** Keeps it by the hash of all its bytes. */
  async keep(hash: string): Promise<void> {
    if (!this.#file) return;
    this.#close();
    await Deno.rename(this.#path, join(this.#path, "..", hash)).catch((error) =>
      log.warn(asSbxError(error, "keeping a copy of a file"))
    );
  }

  async #drop(): Promise<void> {
    if (!this.#file) return;
    this.#close();
    await Deno.remove(this.#path).catch(ignore("it is gone with the VM"));
  }

  #close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#drop();
  }
}
