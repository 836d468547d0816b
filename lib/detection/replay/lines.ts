/** Reads the lines of large files in constant memory, for replays. */
import { SbxError } from "../../base/error/mod.ts";

/** Maximum `bytes` of a line. */
export const LINE_MAX = 32 * 1024 * 1024;
/** `bytes` per read; larger ones cost 20 MB more memory and are no faster. */
const CHUNK = 64 * 1024;
/** `bytes` between two yields to timers and signals. */
const YIELD_INTERVAL = 16 * 1024 * 1024;
const LF = 10;

/** Receives the lines of a file; line numbers are 1-based. */
export interface LineHandler {
  /** Called for every line, also an empty one. @param text line without its line end */
  line(text: string, number: number): void;
  /** Called for a line that cannot be decoded or is too long. */
  fault(number: number, message: string): void;
  /** Called after each read with the number of bytes. */
  read?(bytes: number): void;
}

/**
 * Reads a file line by line with one reused buffer. A regular file is read up to its size at opening, plus
 * the rest of the line that was being written then; any other file is read until its end.
 *
 * @throws {SbxError} `detection.not_found`: it cannot be read
 */
export async function readLines(path: string, handler: LineHandler): Promise<void> {
  try {
    using file = await Deno.open(path);
    const { isFile, isDirectory, size } = await file.stat();
    if (isDirectory) {
      throw new SbxError("detection.not_found", `${path}: is a folder`, { hint: "pass a file" });
    }
    await new Reader(handler).run(file, isFile ? size : Infinity);
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    const isIo = Object.values(Deno.errors).some((kind) => cause instanceof kind);
    if (!isIo) throw cause;
    throw new SbxError("detection.not_found", `${path}: cannot be read`, {
      cause,
      hint: "check the path and its permissions",
    });
  }
}

class Reader {
  #buffer = new Uint8Array(CHUNK);
  /** bytes of an incomplete line at the start of the buffer */
  #buffered = 0;
  #number = 0;
  /** discarding the rest of a line that is too long */
  #skipping = false;
  /** Lenient, because the strict decoder takes four times as long; invalid bytes show as U+FFFD. */
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor(readonly handler: LineHandler) {}

  async run(file: Deno.FsFile, end: number): Promise<void> {
    let [at, sinceYield] = [0, 0];
    for (;;) {
      const room = this.#room();
      // Synchronous: passing each chunk to another thread and back costs more than reading it.
      const read = file.readSync(at < end ? room.subarray(0, Math.min(room.length, end - at)) : room);
      if (read === null) break;
      at += read;
      if ((sinceYield += read) > YIELD_INTERVAL) sinceYield = await yieldToEventLoop();
      this.handler.read?.(read);
      const length = this.#buffered + read;
      if (at > end) {
        // Past the size at opening: only the rest of that line.
        const lineEnd = this.#buffer.subarray(0, length).indexOf(LF, this.#buffered);
        this.#take(lineEnd < 0 ? length : lineEnd + 1);
        if (lineEnd >= 0) break;
      } else {
        this.#take(length);
        if (at === end && this.#buffered === 0 && !this.#skipping) break;
      }
    }
    if (this.#skipping) this.#number++;
    else if (this.#buffered > 0) this.#emitLines(this.#buffered);
  }

  /** Free part of the buffer, which grows if one line fills it. */
  #room(): Uint8Array {
    if (this.#buffered === this.#buffer.length) {
      const larger = new Uint8Array(Math.min(this.#buffer.length * 2, LINE_MAX + 1));
      larger.set(this.#buffer);
      this.#buffer = larger;
    }
    return this.#buffer.subarray(this.#buffered);
  }

  /** Emits the complete lines in the first `length` bytes of the buffer, and moves the rest to its start. */
  #take(length: number): void {
    let from = 0;
    if (this.#skipping) {
      from = this.#buffer.subarray(0, length).indexOf(LF) + 1;
      if (from === 0) {
        this.#buffered = 0;
        return;
      }
      this.#skipping = false;
      this.#number++;
      this.#buffer.copyWithin(0, from, length);
      length -= from;
    }
    const end = this.#buffer.subarray(0, length).lastIndexOf(LF);
    if (end >= 0) this.#emitLines(end);
    this.#buffer.copyWithin(0, end + 1, length);
    this.#buffered = length - end - 1;
    if (this.#buffered > LINE_MAX) {
      this.handler.fault(this.#number + 1, `longer than ${LINE_MAX} bytes`);
      [this.#skipping, this.#buffered] = [true, 0];
    }
    // Shrink the buffer after a long line.
    if (this.#buffered < CHUNK && this.#buffer.length > 4 * CHUNK) {
      this.#buffer = this.#buffer.slice(0, CHUNK);
    }
  }

  /** Emits the lines in the first `length` bytes of the buffer; the last one may have no line end. */
  #emitLines(length: number): void {
    const bytes = this.#buffer.subarray(0, length);
    const text = this.#decoder.decode(bytes);
    if (text.includes(REPLACEMENT)) return this.#emitLinesStrictly(bytes);
    for (let from = 0; from <= text.length;) {
      const to = text.indexOf("\n", from);
      this.#emitLine(to < 0 ? text.slice(from) : text.slice(from, to));
      if (to < 0) return;
      from = to + 1;
    }
  }

  /** Emits lines decoded strictly one by one, so that one with invalid UTF-8 does not affect the others. */
  #emitLinesStrictly(bytes: Uint8Array): void {
    for (let from = 0; from <= bytes.length;) {
      const lineEnd = bytes.indexOf(LF, from);
      const to = lineEnd < 0 ? bytes.length : lineEnd;
      const text = decodeStrict(bytes.subarray(from, to));
      if (text === undefined) this.handler.fault(++this.#number, "invalid UTF-8");
      else this.#emitLine(text);
      from = to + 1;
    }
  }

  #emitLine(text: string): void {
    this.#number++;
    if (this.#number === 1 && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    this.handler.line(text, this.#number);
  }
}

/** Replacement for invalid UTF-8; valid text may also contain it. */
const REPLACEMENT = "\ufffd";

function yieldToEventLoop(): Promise<0> {
  return new Promise((resolve) => setTimeout(() => resolve(0)));
}

function decodeStrict(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
