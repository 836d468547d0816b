import { Buffer } from "node:buffer";
import type { Finder, Found } from "./finder.ts";
import { SECRET_MAX } from "./form.ts";

/** Most bytes that are held back; a chain of overlapping secrets that is longer is cut. */
const CARRY_MAX = 4 * SECRET_MAX;
const NOTHING = new Uint8Array(0);

/**
 * Replaces what a finder finds in a stream of bytes, wherever the stream is cut into chunks. Holds back what may be
 * the beginning of something, at most {@linkcode CARRY_MAX} bytes; a chunk without anything passes as it is, uncopied.
 */
export class StreamReplacer {
  #finder: () => Finder;
  #replace: (found: Found) => string | undefined;
  #carry: Uint8Array = NOTHING;
  /** the last character that went on: what follows it may be the middle of a word */
  #before = "";

  /** @param replace the text to put in place, one byte a character; `undefined` leaves what is there */
  constructor(finder: () => Finder, replace: (found: Found) => string | undefined) {
    this.#finder = finder;
    this.#replace = replace;
  }

  push(chunk: Uint8Array): Uint8Array {
    if (chunk.length === 0) return NOTHING;
    return this.#run(this.#carry.length ? joined([this.#carry, chunk]) : chunk, false);
  }

  /** What was held back. */
  end(): Uint8Array {
    return this.#carry.length ? this.#run(this.#carry, true) : NOTHING;
  }

  #run(bytes: Uint8Array, last: boolean): Uint8Array {
    const finder = this.#finder();
    const from = this.#before.length;
    const text = this.#before + latin1(bytes);
    const found = finder.find(text, from);
    let cut = last ? text.length : finder.held(text, from);
    for (const { start, end } of found.toReversed()) if (start < cut && cut < end) cut = start;
    if (text.length - cut > CARRY_MAX) cut = text.length;
    const pieces: Uint8Array[] = [];
    let at = from;
    for (const each of found) {
      if (each.start >= cut) break;
      const put = this.#replace(each);
      if (put === undefined) continue;
      pieces.push(bytes.subarray(at - from, each.start - from), Buffer.from(put, "latin1"));
      at = each.end;
    }
    pieces.push(bytes.subarray(at - from, cut - from));
    // What is carried must outlive the caller's buffer.
    this.#carry = cut === text.length ? NOTHING : bytes.slice(cut - from);
    if (cut > from) this.#before = text[cut - 1];
    return pieces.length === 1 ? pieces[0] : joined(pieces);
  }
}

/** Text with one character for each byte. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function joined(pieces: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
