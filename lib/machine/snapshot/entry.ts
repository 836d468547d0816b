/**
 * One entry of a snapshot, its path and its line in the manifest. A path is a string with one character for
 * each byte, so that every name that Linux allows is a key, a line of JSON and itself again.
 */
import type { FileStat } from "../../../ffi/libc/stat.ts";
import { decodeUtf8, escapeBytes } from "../../base/text/mod.ts";

/**
 * Bits that a restore sets: set-user-id and set-group-id are never recorded, as
 * no file from the host gets them.
 */
const MODE_MASK = { file: 0o777, folder: 0o1777, link: 0o777, other: 0o777 };

/** Characters of an object's name at the start of a line: BLAKE3 as hex, and how the file is stored. */
const OBJECT_NAME = /^\["([0-9a-f]{64}s?)"/;

/** A file, folder or link; `other` is one that the snapshot left out. */
export interface Entry {
  path: BytePath;
  type: FileStat["type"];
  mode: number;
  uid: number;
  gid: number;
  /** `bytes` */
  size: number;
  /** `seconds.nanoseconds` since 1970 */
  mtime: string;
  /** last change of anything, in `s` since 1970 */
  ctime: number;
  /** identity of the file as it was read; empty when it changed meanwhile */
  stamp: string;
  /** name of the content in the store */
  object?: string;
  /** bytes of a link's target, or the reason for leaving the entry out */
  target?: string;
}

/** Entry from the kernel's file status; without content. */
export function entryOf(path: BytePath, stat: FileStat): Entry {
  const { type, mode, uid, gid, size, mtime, ctime, stamp } = stat;
  return { path, type, mode: mode & MODE_MASK[type], uid, gid, size, mtime, ctime, stamp };
}

/** An entry that the snapshot does not have. */
export function leftOut(path: BytePath, why: string): Entry {
  return {
    path,
    type: "other",
    mode: 0,
    uid: 0,
    gid: 0,
    size: 0,
    mtime: "0.0",
    ctime: 0,
    stamp: "",
    target: pathOf(new TextEncoder().encode(why)),
  };
}

export function lineOf(entry: Entry): string {
  const { object = "", path, type, mode, uid, gid, size, mtime, ctime, stamp, target = "" } = entry;
  return JSON.stringify([object, path, type, mode, uid, gid, size, mtime, ctime, stamp, target]);
}

/** @throws {Error} the line is not one of a manifest */
export function parseLine(line: string): Entry {
  const [object, path, type, mode, uid, gid, size, mtime, ctime, stamp, target] = JSON.parse(line);
  return {
    path,
    type,
    mode,
    uid,
    gid,
    size,
    mtime,
    ctime,
    stamp,
    ...(object !== "" && { object }),
    ...(target !== "" && { target }),
  };
}

/** The object that a line of a manifest names, without reading the rest of it. */
export function objectOfLine(line: string): string | undefined {
  return OBJECT_NAME.exec(line)?.[1];
}

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
