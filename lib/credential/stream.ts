import { Buffer } from "node:buffer";
import type { Finder, SecretMatch } from "./finder.ts";
import { SECRET_MAX } from "./form.ts";

/** Most `bytes` held back; a longer chain of overlapping secrets is cut. */
const CARRY_MAX = 4 * SECRET_MAX;
const EMPTY = new Uint8Array(0);

/**
 * Replaces the matches of a finder in a stream of bytes, also across chunks. Holds back a possible beginning
 * of a match, at most {@linkcode CARRY_MAX} `bytes`; a chunk without matches passes uncopied.
 */
export class StreamReplacer {
  #finder: () => Finder;
  #replace: (match: SecretMatch) => string | undefined;
  #carry: Uint8Array = EMPTY;
  /** last character passed on, to tell the middle of a word from its start */
  #before = "";

  /** @param replace replacement for a match, one byte per character; `undefined` leaves the match */
  constructor(finder: () => Finder, replace: (match: SecretMatch) => string | undefined) {
    this.#finder = finder;
    this.#replace = replace;
  }

  push(chunk: Uint8Array): Uint8Array {
    if (chunk.length === 0) return EMPTY;
    return this.#run(this.#carry.length ? concat([this.#carry, chunk]) : chunk, false);
  }

  /** Returns the bytes held back. */
  end(): Uint8Array {
    return this.#carry.length ? this.#run(this.#carry, true) : EMPTY;
  }

  #run(bytes: Uint8Array, isLast: boolean): Uint8Array {
    const finder = this.#finder();
    const from = this.#before.length;
    const text = this.#before + latin1(bytes);
    const matches = finder.find(text, from);
    let cut = isLast ? text.length : finder.partialStart(text, from);
    for (const { start, end } of matches.toReversed()) if (start < cut && cut < end) cut = start;
    if (text.length - cut > CARRY_MAX) cut = text.length;
    const pieces: Uint8Array[] = [];
    let at = from;
    for (const match of matches) {
      if (match.start >= cut) break;
      const replacement = this.#replace(match);
      if (replacement === undefined) continue;
      pieces.push(bytes.subarray(at - from, match.start - from), Buffer.from(replacement, "latin1"));
      at = match.end;
    }
    pieces.push(bytes.subarray(at - from, cut - from));
    // A copy: the carried bytes outlive the caller's buffer.
    this.#carry = cut === text.length ? EMPTY : bytes.slice(cut - from);
    if (cut > from) this.#before = text[cut - 1];
    return pieces.length === 1 ? pieces[0] : concat(pieces);
  }
}

/** Decodes bytes to text with one character per byte. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function concat(pieces: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
