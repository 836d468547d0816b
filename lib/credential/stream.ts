import { Buffer } from "node:buffer";
import { joinBytes } from "../base/bytes/mod.ts";
import type { Finder, SecretMatch } from "./finder.ts";
import { SECRET_MAX } from "./form.ts";

/** Most `bytes` held back: the longest secret in its longest escapes. A longer chain of secrets is cut. */
export const CARRY_MAX = 16 * SECRET_MAX;
/** Part of the held bytes that has to arrive before they are searched again: small pieces cost linear time. */
const AGAIN = 1 / 8;
/** Held `bytes` that are always searched again. */
const CARRY_SMALL = 4 * 1024;
const EMPTY = new Uint8Array(0);

/**
 * Replaces the matches of a finder in a stream of bytes, also across chunks. Holds back a possible beginning
 * of a match, at most {@linkcode CARRY_MAX} `bytes`; a chunk without matches passes uncopied. The finder is asked
 * for with each chunk: a stream that is open already is searched for a secret that becomes known.
 */
export class StreamReplacer {
  #finder: () => Finder | undefined;
  #replace: (match: SecretMatch) => string | undefined;
  #carry: Uint8Array = EMPTY;
  /** chunks that wait behind the carry */
  #waiting: Uint8Array[] = [];
  #waitingSize = 0;
  /** last character passed on, to distinguish the middle of a word from its start */
  #before = "";

  /**
   * @param finder `undefined` while there is nothing to find
   * @param replace replacement for a match, one byte per character; `undefined` leaves the match
   */
  constructor(finder: () => Finder | undefined, replace: (match: SecretMatch) => string | undefined) {
    this.#finder = finder;
    this.#replace = replace;
  }

  /** @returns the bytes that can be passed on */
  push(chunk: Uint8Array): Uint8Array {
    if (chunk.length === 0) return EMPTY;
    const finder = this.#finder();
    if (!finder) return chunk;
    if (this.#carry.length === 0) return this.#run(finder, chunk, false);
    if (this.#carry.length > CARRY_SMALL && this.#waitingSize + chunk.length < this.#carry.length * AGAIN) {
      // A copy: the waiting bytes outlive the caller's buffer.
      this.#waiting.push(chunk.slice());
      this.#waitingSize += chunk.length;
      return EMPTY;
    }
    return this.#run(finder, this.#takeHeld(chunk), false);
  }

  /** Returns the bytes held back. Another stream may follow. */
  end(): Uint8Array {
    const finder = this.#finder();
    const rest = finder && this.#carry.length ? this.#run(finder, this.#takeHeld(EMPTY), true) : EMPTY;
    this.#before = "";
    return rest;
  }

  #takeHeld(chunk: Uint8Array): Uint8Array {
    const held = joinBytes([this.#carry, ...this.#waiting, chunk]);
    this.#waiting = [];
    this.#waitingSize = 0;
    return held;
  }

  #run(finder: Finder, bytes: Uint8Array, isLast: boolean): Uint8Array {
    const from = this.#before.length;
    const text = this.#before + latin1(bytes);
    const { matches, partial } = finder.scan(text, from);
    let cut = isLast ? text.length : partial;
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
    return joinBytes(pieces);
  }
}

/** Decodes bytes to text with one character per byte. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}
