/** Lines of JSON in both directions of a pipe (spec.md, "Aggregator protocol"). */
import { LINE_BYTES_MAX } from "./limit.ts";

interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}
interface ByteSink {
  write(bytes: Uint8Array): Promise<unknown>;
}

/** A line, or why there is none where one was expected. */
export type Line = { text: string } | { problem: string };

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/** Yields line after line. One that is too long or not UTF-8 is skipped up to its end, and said to be. */
export async function* readLines(source: ByteSource, max = LINE_BYTES_MAX): AsyncGenerator<Line> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let held: Uint8Array[] = [];
  let size = 0;
  const finish = (): Line => {
    const bytes = held.length === 1 ? held[0] : concat(held, size);
    const problem = size > max && `a line of ${size} bytes is over the limit of ${max}`;
    held = [];
    size = 0;
    if (problem) return { problem };
    try {
      return { text: decoder.decode(bytes) };
    } catch {
      return { problem: "a line is not UTF-8" };
    }
  };
  const hold = (bytes: Uint8Array) => {
    size += bytes.length;
    // Of a line that is too long only the size is kept.
    if (size <= max) held.push(bytes);
    else held = [];
  };
  const buffer = new Uint8Array(CHUNK);
  for (let read = await source.read(buffer); read !== null; read = await source.read(buffer)) {
    let start = 0;
    for (let end = buffer.indexOf(NEWLINE); end >= 0 && end < read; end = buffer.indexOf(NEWLINE, start)) {
      hold(buffer.subarray(start, end));
      yield finish();
      start = end + 1;
    }
    if (start < read) hold(buffer.slice(start, read));
  }
  if (size > 0) yield { problem: `the input ended within a line, after ${size} bytes of it` };
}

/** Writes lines in the order in which they come; those that wait for the pipe go out in one piece. */
export class LineWriter {
  #sink: ByteSink;
  #encoder = new TextEncoder();
  #waiting: string[] = [];
  #writing?: Promise<void>;
  #failed = false;

  constructor(sink: ByteSink) {
    this.#sink = sink;
  }

  /** Queues a line, without its newline. What comes after the pipe has broken is dropped. */
  write(line: string): void {
    if (this.#failed) return;
    this.#waiting.push(line);
    this.#writing ??= this.#drain();
  }

  /** Settles when all that was written is in the pipe, or never will be. */
  async flushed(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  async #drain(): Promise<void> {
    // Lines of one turn of the event loop go out together.
    await Promise.resolve();
    try {
      while (this.#waiting.length > 0) {
        const text = this.#waiting.join("\n") + "\n";
        this.#waiting = [];
        const bytes = this.#encoder.encode(text);
        for (let at = 0; at < bytes.length;) {
          const written = await this.#sink.write(bytes.subarray(at));
          at += typeof written === "number" ? written : bytes.length - at;
        }
      }
    } catch {
      this.#failed = true;
      this.#waiting = [];
    }
    this.#writing = undefined;
  }
}

/** Whether a line fits the protocol; a short one is not measured. */
export function fitsLine(text: string, max = LINE_BYTES_MAX): boolean {
  return text.length * 3 <= max || (text.length <= max && byteLength(text) <= max);
}

/** Bytes of a text as UTF-8. */
export function byteLength(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    // Each half of a surrogate pair counts two: four together.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}

function concat(parts: Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(parts.length === 0 ? 0 : size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
