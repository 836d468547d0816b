/**
 * A job's output: files of records, each named by the position of its first byte in the output. A record is
 * one byte for the stream, a u32 big-endian length, and the bytes.
 */
import { join } from "node:path";

/** Share of the limit in one segment: at most this much is dropped at once. */
const SEGMENTS = 8;

/** A segment on disk, with its size in `bytes`. */
interface Segment {
  start: number;
  size: number;
}

/**
 * Keeps the last output of a job in its folder. Written at once: output so far survives a kill of this
 * process. Output lost to a full disk is reported to readers as missing.
 */
export class JobOutput {
  readonly #dir: string;
  readonly #segmentBytes: number;
  readonly #limit: number;
  readonly #segments: Segment[];
  #file: Deno.FsFile | undefined;
  /** position in the output of the next byte */
  #end: number;

  /**
   * @param dir folder of the job
   * @param end `bytes` of output before, of a job that goes on in another process
   * @param limit most `bytes` on disk
   */
  constructor(dir: string, end = 0, limit = JOB_OUTPUT_BYTES) {
    this.#dir = dir;
    this.#end = end;
    this.#limit = limit;
    this.#segmentBytes = Math.floor(limit / SEGMENTS);
    this.#segments = segmentsOf(dir).map((start) => ({
      start,
      size: Deno.statSync(segmentPath(dir, start)).size,
    }));
  }

  append(stream: Stream, bytes: Uint8Array): void {
    const most = this.#segmentBytes - HEADER_BYTES;
    for (let at = 0; at < bytes.length; at += most) this.#appendPart(stream, bytes.subarray(at, at + most));
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #appendPart(stream: Stream, bytes: Uint8Array): void {
    const record = encodeRecord(stream, bytes);
    try {
      const segment = this.#segmentFor(record.length);
      writeWhole(this.#file!, record, segment.size);
      segment.size += record.length;
    } catch {
      // A full disk must end neither job nor machine. The next record that fits begins a
      // segment: its name shows the gap.
      this.close();
      if (this.#segments.at(-1)?.size === 0) this.#segments.pop();
    }
    this.#end += bytes.length;
  }

  #segmentFor(size: number): Segment {
    const last = this.#segments.at(-1);
    if (this.#file && last && last.size + size <= this.#segmentBytes) return last;
    this.close();
    // One in which a killed process had written nothing whole: it is begun again.
    if (last?.start === this.#end) this.#segments.pop();
    this.#makeRoom();
    const segment = { start: this.#end, size: 0 };
    this.#file = Deno.openSync(segmentPath(this.#dir, this.#end), {
      create: true,
      write: true,
      truncate: true,
      mode: 0o600,
    });
    this.#segments.push(segment);
    return segment;
  }

  /** Drops the oldest segments until another whole one fits. */
  #makeRoom(): void {
    let kept = this.#segments.reduce((sum, { size }) => sum + size, 0);
    while (this.#segments.length > 0 && this.#isFull(kept)) {
      const { start, size } = this.#segments[0];
      Deno.removeSync(segmentPath(this.#dir, start));
      this.#segments.shift();
      kept -= size;
    }
  }

  /** Tests for no room for a segment; gaps of a full disk make small ones, whose number is limited too. */
  #isFull(kept: number): boolean {
    return kept + this.#segmentBytes > this.#limit || this.#segments.length >= 2 * SEGMENTS;
  }
}

/** Writes a record, or nothing of it. */
function writeWhole(file: Deno.FsFile, record: Uint8Array, before: number): void {
  try {
    for (let at = 0; at < record.length;) at += file.writeSync(record.subarray(at));
  } catch (error) {
    file.truncateSync(before);
    file.seekSync(before, Deno.SeekMode.Start);
    throw error;
  }
}

// Limits of jobs (docs/design/contracts/14-limits.md §14).

/** Most `bytes` of a job's output on disk; the oldest are dropped. */
export const JOB_OUTPUT_BYTES = 8 * 1024 * 1024;
/** Most jobs of a VM that wait or run at once: half of the programs that a guest runs for its host. */
export const JOBS_RUNNING_MAX = 64;
/** Ended jobs of a VM that are kept; the oldest go first. */
export const JOBS_KEPT = 50;

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

/** Position after the output in a job's folder. */
export function outputEnd(dir: string): number {
  const last = segmentsOf(dir).at(-1);
  if (last === undefined) return 0;
  using reader = new OutputReader(dir, last);
  while (reader.read());
  return reader.position;
}

export type Stream = "stdout" | "stderr";

/** `bytes` of a record before its content. */
const HEADER_BYTES = 5;

const STREAMS: readonly Stream[] = ["stdout", "stderr"];
const NAME = /^output-(\d+)$/;

export function segmentPath(dir: string, start: number): string {
  return join(dir, `output-${start}`);
}

/** Positions of the segments in a job's folder, in order; empty for a missing folder. */
export function segmentsOf(dir: string): number[] {
  try {
    const names = Array.from(Deno.readDirSync(dir), ({ name }) => NAME.exec(name)?.[1]);
    return names.filter((start) => start !== undefined).map(Number).sort((a, b) => a - b);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

function encodeRecord(stream: Stream, bytes: Uint8Array): Uint8Array {
  const record = new Uint8Array(HEADER_BYTES + bytes.length);
  record[0] = STREAMS.indexOf(stream);
  new DataView(record.buffer).setUint32(1, bytes.length);
  record.set(bytes, HEADER_BYTES);
  return record;
}

function decodeHeader(header: Uint8Array): { stream: Stream; length: number } {
  const length = new DataView(header.buffer, header.byteOffset).getUint32(1);
  return { stream: STREAMS[header[0]] ?? "stdout", length };
}

const NEWLINE = "\n".charCodeAt(0);

/** The last lines of output; one that has not ended counts. */
export function lastLines(pieces: Piece[], count: number): Piece[] {
  if (count === 0) return [];
  const kept: Piece[] = [];
  let lines = 0;
  // The newline at the end ends the last line and begins none.
  let isEnd = true;
  for (const piece of pieces.toReversed()) {
    for (let at = piece.bytes.length - 1; at >= 0; at--) {
      const isBegun = piece.bytes[at] === NEWLINE && !isEnd && ++lines === count;
      isEnd = false;
      if (!isBegun) continue;
      const rest = piece.bytes.subarray(at + 1);
      if (rest.length > 0) kept.push({ ...piece, bytes: rest, missing: 0 });
      return kept.reverse();
    }
    kept.push(piece);
  }
  return kept.reverse();
}
