import { SbxError } from "../../base/error/mod.ts";

/** Longest line that is read (issue 6, "Bad input": one of 20 MB is a line like any other). */
export const LINE_MAX = 32 * 1024 * 1024;
/** Bytes of one read. */
const CHUNK = 256 * 1024;
/** Bytes after which timers and signals get their turn. */
const BREATH = 16 * 1024 * 1024;
const LF = 10;

/** What is told of a file's lines; both count from 1. */
export interface LineSink {
  /** @param text without its line end; an empty line is told too */
  line(text: string, number: number): void;
  /** a line that is no text */
  fault(number: number, message: string): void;
  /** so many more bytes of the file are behind */
  read?(bytes: number): void;
}

/**
 * Reads a file line by line, in one buffer that it goes over and over. A file that grows meanwhile is read up to where
 * it ended when it was opened, and on to the end of the line that was being written there. What is no regular file is
 * read until it ends.
 *
 * @throws {SbxError} `detection.not_found` when it cannot be read
 */
export async function readLines(path: string, sink: LineSink): Promise<void> {
  try {
    using file = await Deno.open(path);
    const { isFile, isDirectory, size } = await file.stat();
    if (isDirectory) throw new SbxError("detection.not_found", `${path}: a folder`);
    await new Reader(sink).run(file, isFile ? size : Infinity);
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    const isIo = Object.values(Deno.errors).some((kind) => cause instanceof kind);
    if (!isIo) throw cause;
    throw new SbxError("detection.not_found", `${path}: it cannot be read`, {
      cause,
      hint: "check the path and its permissions",
    });
  }
}

class Reader {
  #buffer = new Uint8Array(CHUNK);
  /** bytes of the buffer that are no whole line yet */
  #kept = 0;
  #number = 0;
  /** within a line that is too long: what comes of it is thrown away */
  #skipping = false;
  /** Not the strict decoder: that takes four times as long. What it replaces bad bytes with is looked for instead. */
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor(readonly sink: LineSink) {}

  async run(file: Deno.FsFile, end: number): Promise<void> {
    let [at, unseen] = [0, 0];
    for (;;) {
      const room = this.#room();
      // Not asynchronous: handing each chunk to another thread and back costs more than reading it.
      const read = file.readSync(at < end ? room.subarray(0, Math.min(room.length, end - at)) : room);
      if (read === null) break;
      at += read;
      if ((unseen += read) > BREATH) unseen = await breath();
      this.sink.read?.(read);
      const length = this.#kept + read;
      if (at > end) {
        // Beyond what was there when it was opened: only the rest of that line.
        const lineEnd = this.#buffer.subarray(0, length).indexOf(LF, this.#kept);
        this.#take(lineEnd < 0 ? length : lineEnd + 1);
        if (lineEnd >= 0) break;
      } else {
        this.#take(length);
        if (at === end && this.#kept === 0 && !this.#skipping) break;
      }
    }
    if (this.#skipping) this.#number++;
    else if (this.#kept > 0) this.#lines(this.#kept);
  }

  /** Room for the next read; a line longer than the buffer makes it grow. */
  #room(): Uint8Array {
    if (this.#kept === this.#buffer.length) {
      const larger = new Uint8Array(Math.min(this.#buffer.length * 2, LINE_MAX + 1));
      larger.set(this.#buffer);
      this.#buffer = larger;
    }
    return this.#buffer.subarray(this.#kept);
  }

  /** Tells the whole lines among the first bytes of the buffer, and keeps what is behind them. */
  #take(length: number): void {
    let from = 0;
    if (this.#skipping) {
      from = this.#buffer.subarray(0, length).indexOf(LF) + 1;
      if (from === 0) {
        this.#kept = 0;
        return;
      }
      this.#skipping = false;
      this.#number++;
      this.#buffer.copyWithin(0, from, length);
      length -= from;
    }
    const end = this.#buffer.subarray(0, length).lastIndexOf(LF);
    if (end >= 0) this.#lines(end);
    this.#buffer.copyWithin(0, end + 1, length);
    this.#kept = length - end - 1;
    if (this.#kept > LINE_MAX) {
      this.sink.fault(this.#number + 1, `longer than ${LINE_MAX} bytes`);
      [this.#skipping, this.#kept] = [true, 0];
    }
    // A long line is over: what comes now does not need its buffer.
    if (this.#kept < CHUNK && this.#buffer.length > 4 * CHUNK) this.#buffer = this.#buffer.slice(0, CHUNK);
  }

  /** Tells the lines of the first bytes of the buffer, of which the last may lack its end. */
  #lines(length: number): void {
    const bytes = this.#buffer.subarray(0, length);
    const text = this.#decoder.decode(bytes);
    if (text.includes(REPLACEMENT)) return this.#linesOneByOne(bytes);
    for (let from = 0; from <= text.length;) {
      const to = text.indexOf("\n", from);
      this.#line(to < 0 ? text.slice(from) : text.slice(from, to));
      if (to < 0) return;
      from = to + 1;
    }
  }

  /** One of the lines may not be UTF-8: it must not take the others with it. */
  #linesOneByOne(bytes: Uint8Array): void {
    for (let from = 0; from <= bytes.length;) {
      const found = bytes.indexOf(LF, from);
      const to = found < 0 ? bytes.length : found;
      const text = strictText(bytes.subarray(from, to));
      if (text === undefined) this.sink.fault(++this.#number, "bytes that are not UTF-8");
      else this.#line(text);
      from = to + 1;
    }
  }

  #line(text: string): void {
    this.#number++;
    if (this.#number === 1 && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    this.sink.line(text, this.#number);
  }
}

/** What a decoder puts in the place of bytes that are not UTF-8; a text may also hold it. */
const REPLACEMENT = "\ufffd";

function breath(): Promise<0> {
  return new Promise((resolve) => setTimeout(() => resolve(0)));
}

function strictText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
