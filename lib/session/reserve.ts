import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { writeAll } from "../base/wire/mod.ts";

/** Room for the record of a session on a full disk, in `bytes` (docs/design/contracts/14-limits.md §14). */
const RESERVE_BYTES = 8 * 1024 * 1024;
/** Free `bytes` of a disk that a reserve is taken from; a smaller one is left to what people want on it. */
const PLENTY_BYTES = 128 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;

/** Room on the disk that a file keeps for the record of a session, until the disk is full. */
export class DiskReserve {
  readonly #path: string;
  #held = false;

  /** @param path file that keeps the room, on the disk of the record */
  constructor(path: string) {
    this.#path = path;
  }

  get held(): boolean {
    return this.#held;
  }

  /** Takes the room, unless it is held or the disk has little left. */
  async take(): Promise<void> {
    const { bavail, bsize } = await statfs(dirname(this.#path));
    if (this.#held || bavail * bsize < PLENTY_BYTES) return;
    try {
      using file = await Deno.open(this.#path, { write: true, create: true, truncate: true, mode: 0o600 });
      // Random, since a file system may store nothing for zeros.
      const chunk = crypto.getRandomValues(new Uint8Array(CHUNK_BYTES));
      for (let size = 0; size < RESERVE_BYTES; size += chunk.length) await writeAll(file, chunk);
      this.#held = true;
    } catch (error) {
      await Deno.remove(this.#path).catch(() => {});
      throw error;
    }
  }

  /** Gives the room back. @returns false when none was held */
  async release(): Promise<boolean> {
    const wasHeld = this.#held;
    this.#held = false;
    return await Deno.remove(this.#path).then(() => wasHeld, () => false);
  }
}
