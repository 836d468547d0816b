/** A queue of lines on disk, so that findings outlive the process and an outage of their sink. */
import { join } from "node:path";
import { joinBytes } from "../../base/bytes/mod.ts";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";

/** Approximate maximum `bytes` of a segment file. */
const SEGMENT_BYTES = 1024 * 1024;
/** Maximum number of lines in memory, waiting to be written. */
const PENDING_MAX = 10_000;
/** Default maximum `bytes` of a queue: several hundred thousand findings. */
export const QUEUE_BYTES = 256 * 1024 * 1024;
/** Delay before retrying a failed write, in `ms`. */
const DISK_RETRY_MS = 1000;
/** Time to wait for a previous owner's lock, in `ms`. */
const LOCK_MS = 2000;

const encoder = new TextEncoder();

export interface QueueOptions {
  /** maximum `bytes` on disk; lines beyond it are dropped, counted and reported */
  maxBytes?: number;
  onProblem?(message: string): void;
}

/** Lines from the head of a queue. */
export interface QueueBatch {
  lines: string[];
  /** Marks the lines as done, so that they are not returned again, even after a restart. */
  commit(): Promise<void>;
}

/** Position of the next line to return. */
interface Position {
  segment: number;
  offset: number;
}

/**
 * Queue of lines in a folder. `push` does not wait; written lines survive a restart. A line that was taken
 * but not committed is returned again.
 */
export class DiskQueue {
  readonly #sizes = new Map<number, number>();
  /** encoded lines with their line ends */
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  #bytes = 0;
  #dropped = 0;
  #full = false;
  #closed = false;
  #writing?: Promise<void>;
  #file?: Deno.FsFile;
  #writeSegment: number;
  #arrival = Promise.withResolvers<void>();

  private constructor(
    readonly dir: string,
    readonly options: QueueOptions,
    readonly lock: Deno.FsFile,
    private position: Position,
    segments: Map<number, number>,
  ) {
    this.#sizes = segments;
    this.#bytes = [...segments.values()].reduce((sum, size) => sum + size, 0);
    // A crash can leave a partial line at the end of a segment, so new lines start a new segment.
    this.#writeSegment = Math.max(position.segment, ...segments.keys()) + 1;
  }

  /**
   * Opens a queue with the lines an earlier process left.
   *
   * @throws {SbxError} `sink.conflict`: another process has it open
   */
  static async open(dir: string, options: QueueOptions = {}): Promise<DiskQueue> {
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
    const lock = await Deno.open(join(dir, "lock"), { create: true, write: true, mode: 0o600 });
    if (!await lockWithin(lock, LOCK_MS)) {
      lock.close();
      throw new SbxError("sink.conflict", `the queue ${dir} is in use by another process`, {
        hint: "stop that process, or use another folder",
      });
    }
    const segments = new Map<number, number>();
    for await (const { name } of Deno.readDir(dir)) {
      const [, number] = /^(\d{10})\.jsonl$/.exec(name) ?? [];
      if (number) segments.set(Number(number), (await Deno.stat(join(dir, name))).size);
    }
    const position = await readPosition(dir, Math.min(...segments.keys(), 1));
    const queue = new DiskQueue(dir, options, lock, position, segments);
    for (const segment of [...segments.keys()]) if (segment < position.segment) await queue.#remove(segment);
    return queue;
  }

  /** Queued `bytes`, on disk and in memory. */
  get bytes(): number {
    return this.#bytes - this.position.offset + this.#pendingBytes;
  }

  /** Number of lines dropped because the queue was full. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Adds a line without waiting. @returns `false` if the queue is full or closed */
  push(line: string): boolean {
    const { maxBytes = QUEUE_BYTES, onProblem } = this.options;
    const bytes = encoder.encode(`${line}\n`);
    const isFull = this.bytes + bytes.length > maxBytes || this.#pending.length >= PENDING_MAX;
    if (this.#closed || isFull) {
      this.#dropped++;
      if (!this.#full) {
        onProblem?.(`the queue ${this.dir} is full; new findings go only to the ledger until it has room`);
      }
      this.#full = true;
      return false;
    }
    this.#full = false;
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    this.#write();
    return true;
  }

  /** Waits for lines and returns up to `max`; `undefined` once the queue is closed. */
  async take(max: number): Promise<QueueBatch | undefined> {
    while (!this.#closed) {
      // Taken before reading, so that a line arriving meanwhile also wakes this loop.
      const { promise: arrival } = this.#arrival;
      const batch = await this.#read(max);
      if (batch) return batch;
      if (!this.#closed) await arrival;
    }
  }

  /** Waits until all pushed lines are on disk. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  /** Closes the queue for `push` and `take`, and wakes a waiting `take`. */
  end(): void {
    this.#closed = true;
    this.#arrival.resolve();
  }

  /** Writes the lines in memory and releases the folder. */
  async close(): Promise<void> {
    this.end();
    await this.flush();
    this.#file?.close();
    this.lock.close();
  }

  #write(): void {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      // A line may have arrived after the last check.
      if (this.#pending.length && !this.#closed) this.#write();
    });
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.length) {
      const lines = this.#pending;
      const bytes = joinBytes(lines);
      this.#pending = [];
      try {
        await this.#append(bytes);
      } catch (error) {
        this.options.onProblem?.(asSbxError(error, `writing the queue ${this.dir}`).message);
        this.#pending = [...lines, ...this.#pending];
        // Lines still in memory when the process ends are only in the ledger.
        if (this.#closed) return;
        await backgroundDelay(DISK_RETRY_MS);
        continue;
      }
      this.#pendingBytes -= bytes.length;
      this.#arrival.resolve();
      this.#arrival = Promise.withResolvers();
    }
  }

  async #append(bytes: Uint8Array): Promise<void> {
    const segment = this.#writeSegment;
    this.#file ??= await Deno.open(this.#path(segment), { create: true, append: true, mode: 0o600 });
    const size = this.#sizes.get(segment) ?? 0;
    try {
      await writeAll(this.#file, bytes);
      await this.#file.syncData();
    } catch (error) {
      // The write may be partial: write these lines again, complete, to a new segment.
      this.#nextSegment(size);
      throw error;
    }
    this.#sizes.set(segment, size + bytes.length);
    this.#bytes += bytes.length;
    if (size + bytes.length >= SEGMENT_BYTES) this.#nextSegment(size + bytes.length);
  }

  #nextSegment(size: number): void {
    this.#file?.close();
    this.#file = undefined;
    this.#sizes.set(this.#writeSegment++, size);
  }

  async #read(max: number): Promise<QueueBatch | undefined> {
    for (const segment of [...this.#sizes.keys()].sort((a, b) => a - b)) {
      if (segment < this.position.segment) continue;
      const from = segment === this.position.segment ? this.position.offset : 0;
      const { lines, end } = await this.#readSegment(segment, from, max);
      if (lines.length) return { lines, commit: () => this.#commit({ segment, offset: end }) };
      // The segment being written may get more lines.
      if (segment < this.#writeSegment) await this.#commit({ segment: segment + 1, offset: 0 });
    }
  }

  /** Reads complete lines of a segment, up to the size known to be written. */
  async #readSegment(segment: number, from: number, max: number): Promise<{ lines: string[]; end: number }> {
    const size = this.#sizes.get(segment) ?? 0;
    if (size <= from) return { lines: [], end: from };
    const bytes = await readRange(this.#path(segment), from, Math.min(size, from + SEGMENT_BYTES));
    const lines: string[] = [];
    let start = 0;
    for (let end = bytes.indexOf(10); end >= 0 && lines.length < max; end = bytes.indexOf(10, start)) {
      if (end > start) lines.push(new TextDecoder().decode(bytes.subarray(start, end)));
      start = end + 1;
    }
    return { lines, end: from + start };
  }

  async #commit(position: Position): Promise<void> {
    this.position = position;
    await writeAtomic(join(this.dir, "position.json"), JSON.stringify(position));
    for (const segment of [...this.#sizes.keys()]) {
      if (segment < position.segment) await this.#remove(segment);
    }
  }

  async #remove(segment: number): Promise<void> {
    this.#bytes -= this.#sizes.get(segment) ?? 0;
    this.#sizes.delete(segment);
    await Deno.remove(this.#path(segment)).catch(ignore("the next start removes it"));
  }

  #path(segment: number): string {
    return join(this.dir, `${String(segment).padStart(10, "0")}.jsonl`);
  }
}

async function readPosition(dir: string, first: number): Promise<Position> {
  try {
    const { segment, offset } = JSON.parse(await Deno.readTextFile(join(dir, "position.json")));
    if (Number.isSafeInteger(segment) && Number.isSafeInteger(offset)) return { segment, offset };
  } catch {
    // Missing or invalid: all lines are returned again, because duplicates are better than losses.
  }
  return { segment: first, offset: 0 };
}

async function readRange(path: string, from: number, to: number): Promise<Uint8Array> {
  using file = await Deno.open(path);
  await file.seek(from, Deno.SeekMode.Start);
  const bytes = new Uint8Array(to - from);
  let length = 0;
  while (length < bytes.length) {
    const read = await file.read(bytes.subarray(length));
    if (read === null) break;
    length += read;
  }
  return bytes.subarray(0, length);
}
