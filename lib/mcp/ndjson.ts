/** Lines of JSON over a pipe, in both directions (docs/design/contracts/08-mcp.md §8). */
import { parseJson } from "../base/json/mod.ts";
import { joinBytes } from "../base/bytes/mod.ts";
import { LINE_BYTES_MAX, LINE_DEPTH_MAX } from "./limit.ts";

interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}
interface ByteSink {
  write(bytes: Uint8Array): Promise<unknown>;
}

/** A line, or the reason why it cannot be read. */
export type Line = { text: string } | { problem: string };

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/** Yields each line. A line that is too long or not UTF-8 is skipped to its end and yielded as a problem. */
export async function* readLines(source: ByteSource, max = LINE_BYTES_MAX): AsyncGenerator<Line> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const finish = (): Line => {
    const bytes = joinBytes(chunks);
    const problem = size > max && `line of ${size} bytes exceeds the limit of ${max} bytes`;
    chunks = [];
    size = 0;
    if (problem) return { problem };
    try {
      return { text: decoder.decode(bytes) };
    } catch {
      return { problem: "line is not valid UTF-8" };
    }
  };
  const append = (bytes: Uint8Array<ArrayBuffer>) => {
    size += bytes.length;
    // Only the size of an overlong line is kept.
    if (size <= max) chunks.push(bytes);
    else chunks = [];
  };
  const buffer = new Uint8Array(CHUNK);
  for (let read = await source.read(buffer); read !== null; read = await source.read(buffer)) {
    let start = 0;
    for (let end = buffer.indexOf(NEWLINE); end >= 0 && end < read; end = buffer.indexOf(NEWLINE, start)) {
      append(buffer.subarray(start, end));
      yield finish();
      start = end + 1;
    }
    if (start < read) append(buffer.slice(start, read));
  }
  if (size > 0) yield { problem: `input ended inside a line, after ${size} bytes` };
}

/** Writes lines in order; lines that wait for the pipe are written in one piece. */
export class LineWriter {
  #sink: ByteSink;
  #encoder = new TextEncoder();
  #waiting: string[] = [];
  #writing?: Promise<void>;
  #failed = false;

  constructor(sink: ByteSink) {
    this.#sink = sink;
  }

  /** Queues a line, without its newline. Lines after a broken pipe are dropped. */
  write(line: string): void {
    if (this.#failed) return;
    this.#waiting.push(line);
    this.#writing ??= this.#drain();
  }

  /** Settles when all queued lines are in the pipe, or the pipe is broken. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  async #drain(): Promise<void> {
    // Batches the lines of one turn of the event loop.
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

/** The value of a line of the protocol. @returns `undefined` when it is malformed, or nested too deep */
export function valueOf(text: string): unknown {
  try {
    return parseJson(text, LINE_DEPTH_MAX);
  } catch {
    return undefined;
  }
}

/** Tests whether a line fits the protocol; a short line is not measured. */
export function fitsLine(text: string, max = LINE_BYTES_MAX): boolean {
  return text.length * 3 <= max || (text.length <= max && byteLength(text) <= max);
}

/** UTF-8 length of a text in `bytes`. */
export function byteLength(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    // Each half of a surrogate pair counts two, four together.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}
