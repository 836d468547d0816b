import { Buffer } from "node:buffer";
import { writeAll } from "../../../lib/base/wire/mod.ts";

/** Unit of holes, in `bytes`: a block of common file systems. */
const BLOCK = 4096;
const ZEROS = new Uint8Array(BLOCK);

/**
 * Writes a new file from its beginning and leaves holes for blocks of zeros, so that a sparse file takes no
 * more space than its source.
 */
export class SparseWriter {
  /** `bytes` so far, holes included */
  size = 0;
  /** current end of the file */
  #written = 0;

  constructor(readonly file: Deno.FsFile) {}

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const isHole = isZero(bytes.subarray(at, this.#blockEnd(bytes, at)));
      let end = at;
      do {
        end = this.#blockEnd(bytes, end, at);
      } while (end < bytes.length && isZero(bytes.subarray(end, this.#blockEnd(bytes, end, at))) === isHole);
      if (!isHole) await this.#put(bytes.subarray(at, end));
      this.size += end - at;
      at = end;
    }
  }

  /** Gives the file its size, which a hole at its end does not. */
  async end(): Promise<void> {
    if (this.#written !== this.size) await this.file.truncate(this.size);
  }

  async #put(part: Uint8Array): Promise<void> {
    if (this.#written !== this.size) await this.file.seek(this.size, Deno.SeekMode.Start);
    await writeAll(this.file, part);
    this.#written = this.size + part.length;
  }

  /**
   * End of the file block that contains `start`; pieces may begin and end within blocks.
   *
   * @param at where the bytes behind {@linkcode size} begin
   */
  #blockEnd(bytes: Uint8Array, start: number, at = start): number {
    return Math.min(start + BLOCK - (this.size + start - at) % BLOCK, bytes.length);
  }
}

function isZero(bytes: Uint8Array): boolean {
  return Buffer.compare(bytes, bytes.length === BLOCK ? ZEROS : ZEROS.subarray(0, bytes.length)) === 0;
}
