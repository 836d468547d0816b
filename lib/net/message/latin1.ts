/** Text of which each char is a byte: what HTTP heads are made of, and what comes back from it as it was. */
import { Buffer } from "node:buffer";

const slice = Buffer.prototype.latin1Slice as (this: Uint8Array, from: number, to: number) => string;

/** Bytes → text; a fifth of the time of a TextDecoder. */
export function latin1(bytes: Uint8Array): string {
  return slice.call(bytes, 0, bytes.length);
}

/** Text → bytes, written at a place. @returns where they end */
export function putLatin1(text: string, into: Uint8Array, at: number): number {
  for (let from = 0; from < text.length; from++) into[at++] = text.charCodeAt(from);
  return at;
}

/** Shorter parts of a string are copies already. */
const SLICED_MIN = 13;

/**
 * The same text in a string of its own. A part of a longer text keeps all of that in memory, and V8 writes JSON of it in
 * three times the time.
 */
export function flat(text: string): string {
  return text.length < SLICED_MIN ? text : [text.slice(0, 1), text.slice(1)].join("");
}

const utf8 = new TextDecoder("utf-8", { fatal: true });
const encoder = new TextEncoder();

/** Bytes as people read them: UTF-8 where it is that. */
export function readable(text: string): string {
  if (!/[\x80-\xff]/.test(text)) return text;
  const bytes = new Uint8Array(text.length);
  putLatin1(text, bytes, 0);
  try {
    return utf8.decode(bytes);
  } catch {
    return text;
  }
}

/** The bytes of any text in UTF-8, as text of which each char is a byte. */
export function bytewise(text: string): string {
  // deno-lint-ignore no-control-regex
  return /^[\x00-\x7f]*$/.test(text) ? text : latin1(encoder.encode(text));
}
