/**
 * Paths of a workspace, as a snapshot keeps them: a string with one character for each byte, so that every name that
 * Linux allows is a key, a line of JSON and itself again.
 */
import { decodeUtf8, escapeBytes } from "../../base/text/mod.ts";

/** A path relative to the workspace, one character a byte. */
export type BytePath = string;

/** The path of bytes, at most one name or a few KB. */
export function pathOf(bytes: Uint8Array): BytePath {
  return String.fromCharCode.apply(null, bytes as unknown as number[]);
}

export function bytesOf(path: BytePath): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(path.length);
  for (let at = 0; at < path.length; at++) bytes[at] = path.charCodeAt(at);
  return bytes;
}

/** The path of a text that a person wrote. */
export function fromText(text: string): BytePath {
  return pathOf(new TextEncoder().encode(text));
}

/** A path for a person: bytes that are not UTF-8 as `\xe9`. */
export function toText(path: BytePath): string {
  const bytes = bytesOf(path);
  return decodeUtf8(bytes) ?? escapeBytes(bytes);
}

export function join(folder: BytePath, name: BytePath): BytePath {
  return folder === "" ? name : `${folder}/${name}`;
}

/** Folder and name of a path. */
export function split(path: BytePath): { folder: BytePath; name: BytePath } {
  const at = path.lastIndexOf("/");
  return { folder: path.slice(0, Math.max(0, at)), name: path.slice(at + 1) };
}

/** True if a path is a folder or anything below it; every path is below the empty one. */
export function isWithin(path: BytePath, folder: BytePath): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}
