/** One entry of a snapshot, and its line in the manifest. */
import type { FileStat } from "../../../ffi/libc/stat.ts";
import { type BytePath, pathOf } from "./path.ts";

/** Bits that a restore sets: set-user-id and set-group-id are never recorded, as no file from the host gets them. */
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
