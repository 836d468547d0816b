/** Sigma's texts: wildcards, escapes, and the transformations that modifiers make of them. */
import type { GlobPart, PlanTest } from "./plan.ts";
import { fold } from "./run/fold.ts";

/**
 * Splits a value at its wildcards. `\*`, `\?` and `\\` are the character itself; any
 * other backslash is a backslash.
 */
export function parseText(source: string): GlobPart[] {
  const parts: GlobPart[] = [];
  let literal = "";
  const end = () => {
    if (literal) parts.push(literal);
    literal = "";
  };
  for (let at = 0; at < source.length; at++) {
    const char = source[at];
    if (char === "\\") {
      const next = source[at + 1];
      const isEscape = next === "*" || next === "?" || next === "\\";
      literal += isEscape ? next : char;
      if (isEscape) at++;
    } else if (char === "*" || char === "?") {
      end();
      if (char === "?") parts.push(1);
      else if (parts.at(-1) !== 0) parts.push(0);
    } else literal += char;
  }
  end();
  return parts;
}

/** The one literal of parts without wildcards. @returns `undefined` if there is a wildcard */
export function literalOf(parts: readonly GlobPart[]): string | undefined {
  return parts.every((part) => typeof part === "string") ? parts.join("") : undefined;
}

/** Puts `*` before or after a text, where it has none. */
export function unbounded(parts: readonly GlobPart[], before: boolean, after: boolean): GlobPart[] {
  return [
    ...(before && parts[0] !== 0 ? [0 as const] : []),
    ...parts,
    ...(after && (parts.at(-1) !== 0 || parts.length === 0) ? [0 as const] : []),
  ];
}

/** The cheapest test for a text with wildcards. */
export function textTest(parts: readonly GlobPart[], cased: boolean): PlanTest {
  const merged: GlobPart[] = [];
  for (const part of parts) {
    const last = merged.at(-1);
    if (typeof part === "string" && typeof last === "string") merged[merged.length - 1] = last + part;
    else if (part !== 0 || last !== 0) merged.push(part);
  }
  const folded = cased ? merged : merged.map((part) => typeof part === "string" ? fold(part) : part);
  const mark = cased ? { cased: true as const } : {};
  const [a, b, c] = folded;
  if (folded.length === 0) return { t: "text", at: "is", text: "", ...mark };
  if (folded.length === 1 && a === 0) return { t: "text", at: "has", text: "", ...mark };
  if (folded.length === 1 && typeof a === "string") return { t: "text", at: "is", text: a, ...mark };
  if (folded.length === 2 && a === 0 && typeof b === "string") {
    return { t: "text", at: "ends", text: b, ...mark };
  }
  if (folded.length === 2 && typeof a === "string" && b === 0) {
    return { t: "text", at: "begins", text: a, ...mark };
  }
  if (folded.length === 3 && a === 0 && typeof b === "string" && c === 0) {
    return { t: "text", at: "has", text: b, ...mark };
  }
  return { t: "glob", parts: folded, ...mark };
}

export const DASHES = ["-", "/", "–", "—", "―"];
/** A dash that begins a parameter: nothing of a word before it, a word after it. */
const DASH = /\B[-/–—―]\b/gu;

/** Number of texts that {@linkcode windash} makes. */
export function windashCount(parts: readonly GlobPart[]): number {
  const dashes = parts.reduce<number>(
    (sum, part) => sum + (typeof part === "string" ? [...part.matchAll(DASH)].length : 0),
    0,
  );
  return DASHES.length ** dashes;
}

/** Every text with each dash that begins a parameter replaced by each of the dashes. */
export function windash(parts: readonly GlobPart[]): GlobPart[][] {
  let texts: GlobPart[][] = [[]];
  for (const part of parts) {
    const variants = typeof part === "string" ? dashVariants(part) : [part];
    texts = texts.flatMap((text) => variants.map((variant) => [...text, variant]));
  }
  return texts;
}

function dashVariants(literal: string): string[] {
  let texts = [""];
  let from = 0;
  for (const { index } of literal.matchAll(DASH)) {
    const before = literal.slice(from, index);
    texts = texts.flatMap((text) => DASHES.map((dash) => text + before + dash));
    from = index + 1;
  }
  return texts.map((text) => text + literal.slice(from));
}

export type Utf16 = "utf16" | "utf16le" | "utf16be" | "wide";

/** Encodes a text; `utf16` begins with a byte order mark. */
export function encodeUtf16(text: string, form: Utf16): Uint8Array {
  const mark = form === "utf16" ? 2 : 0;
  const bytes = new Uint8Array(mark + text.length * 2);
  if (mark) bytes.set([0xff, 0xfe]);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < text.length; at++) {
    view.setUint16(mark + at * 2, text.charCodeAt(at), form !== "utf16be");
  }
  return bytes;
}

/** A text in which each byte is a character. */
export function bytesText(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** Characters of the encoding that depend on neighbours, at the start by offset and at the end by length. */
const STARTS = [0, 2, 3];
const ENDS = [undefined, -3, -2];

/**
 * The part of a value's encoding that is the same in every text in which the value
 * begins at each offset of three.
 */
export function base64Offsets(bytes: Uint8Array): string[] {
  return STARTS.map((start, offset) => {
    const shifted = new Uint8Array(offset + bytes.length).fill(32);
    shifted.set(bytes, offset);
    return shifted.toBase64().slice(start, ENDS[shifted.length % 3]);
  });
}
