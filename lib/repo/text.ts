/** Paths and output of git, as texts of one character a byte. */
import { plain } from "../base/print/mod.ts";
import { decodeUtf8, escapeBytes } from "../base/text/mod.ts";

// A mark of byte order at the beginning is a part of the text: a name without it is another name.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Text of output, with the bytes that are not UTF-8 replaced. */
export const decoded = (bytes: Uint8Array) => decoder.decode(bytes);

/** Bytes as text of one character each, which keeps non-UTF-8 names. */
export function latin1(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return text;
}

/** The bytes of such a text. */
export function fromLatin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Entries of a `-z` output. */
export function splitNul(bytes: Uint8Array): string[] {
  return latin1(bytes).split("\0").slice(0, -1);
}

/** Text of a file, with the bytes that are not UTF-8 replaced. */
export const textOf = (text: string) => decoded(fromLatin1(text));

/** A path for the host's calls and git's arguments; undefined for non-UTF-8, which they cannot name. */
export const exactText = (path: string) => decodeUtf8(fromLatin1(path));

/** A path for programs: bytes that are not UTF-8 as `\xff`. */
export function pathText(path: string): string {
  const bytes = fromLatin1(path);
  return decodeUtf8(bytes) ?? escapeBytes(bytes);
}

/** A path for people. */
export const shown = (path: string) => plain(pathText(path));
