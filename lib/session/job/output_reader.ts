import { decodeHeader, HEADER_BYTES, segmentPath, segmentsOf, type Stream } from "./segment.ts";

/** Most `bytes` of a record that are read; sbx writes no longer ones. */
const RECORD_MAX = 16 * 1024 * 1024;

/** A piece of a job's output. */
export interface Piece {
  stream: Stream;
  bytes: Uint8Array<ArrayBuffer>;
  /** `bytes` right before it that were dropped or could not be written */
  missing: number;
}

/** Reads a job's output from its folder, also while it is written. */
export class OutputReader implements Disposable {
  readonly #dir: string;
  #file: Deno.FsFile | undefined;
  #start = -1;
  /** position in the output of the record at the file's position */
  #at = 0;
  /** position in the output of the next byte for the caller */
  #next: number;

  /** @param from position in the output of the first byte to read */
  constructor(dir: string, from = 0) {
    this.#dir = dir;
    this.#next = from;
  }

  /** Position in the output of the next byte. */
  get position(): number {
    return this.#next;
  }

  /** The next piece; undefined at the end of the written output. */
  read(): Piece | undefined {
    while (true) {
      const record = this.#record() ?? this.#nextRecord();
      if (!record) return undefined;
      const { stream, bytes } = record;
      const begin = this.#at;
      this.#at += bytes.length;
      if (this.#at <= this.#next) continue;
      const missing = Math.max(0, begin - this.#next);
      const skipped = Math.max(0, this.#next - begin);
      this.#next = this.#at;
      return { stream, bytes: bytes.subarray(skipped), missing };
    }
  }

  [Symbol.dispose](): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #record(): Omit<Piece, "missing"> | undefined {
    if (!this.#file) return undefined;
    const position = this.#file.seekSync(0, Deno.SeekMode.Current);
    const header = this.#bytes(HEADER_BYTES);
    const { stream, length } = header
      ? decodeHeader(header)
      : { stream: "stdout" as const, length: Infinity };
    const bytes = length <= RECORD_MAX ? this.#bytes(length) : undefined;
    if (bytes) return { stream, bytes };
    // Incomplete: under way, or cut by the end of its process.
    this.#file.seekSync(position, Deno.SeekMode.Start);
    return undefined;
  }

  #bytes(length: number): Uint8Array<ArrayBuffer> | undefined {
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length;) {
      const read = this.#file!.readSync(bytes.subarray(at));
      if (read === null) return undefined;
      at += read;
    }
    return bytes;
  }

  /** The first record of the segments that have not been opened. */
  #nextRecord(): Omit<Piece, "missing"> | undefined {
    const starts = segmentsOf(this.#dir).filter((start) => start > this.#start);
    // Older ones end before the position.
    const covering = starts.findLastIndex((start) => start <= this.#next);
    for (const start of starts.slice(Math.max(0, covering))) {
      // Written to the open one before the next one was begun.
      const late = this.#record();
      if (late) return late;
      if (!this.#open(start)) continue;
      const record = this.#record();
      if (record) return record;
    }
    return undefined;
  }

  #open(start: number): boolean {
    try {
      const file = Deno.openSync(segmentPath(this.#dir, start));
      this.#file?.close();
      this.#file = file;
      this.#start = this.#at = start;
      return true;
    } catch (error) {
      // Dropped a moment ago.
      if (error instanceof Deno.errors.NotFound) return false;
      throw error;
    }
  }
}
