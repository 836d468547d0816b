import { encodeRecord, HEADER_BYTES, segmentPath, segmentsOf, type Stream } from "./segment.ts";

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
      // A full disk must end neither job nor machine. The next record that fits begins a segment: its name shows the gap.
      this.close();
      if (this.#segments.at(-1)?.size === 0) this.#segments.pop();
    }
    this.#end += bytes.length;
  }

  #segmentFor(size: number): Segment {
    const last = this.#segments.at(-1);
    if (this.#file && last && last.size + size <= this.#segmentBytes) return last;
    this.close();
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
