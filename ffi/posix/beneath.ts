/**
 * Opens a path that cannot leave a folder, even if another program changes links meanwhile: one component
 * after the other, each without following a link; links are read and followed here.
 */
import type { PathHandle } from "../host/handle.ts";
import { OpenError } from "../libc/beneath.ts";
import { CallError, cString } from "../libc/descriptor.ts";
import type { Calls } from "./platform.ts";
import { PosixDescriptor } from "./folder.ts";

/** Most links in one path, as on Linux. */
const LINKS_MAX = 40;
const TARGET_BYTES = 4096;
/** Errors of opening a link without following it; on some systems the second, if a folder is required. */
const MAY_BE_LINK = ["ELOOP", "ENOTDIR"];

/** A file or folder that is held open. */
class HeldPath implements PathHandle {
  readonly #file: PosixDescriptor;
  readonly path: string;

  constructor(calls: Calls, fd: number) {
    this.#file = new PosixDescriptor(calls, fd);
    const { statBytes, parseStat, pathOf } = calls.platform;
    const buffer = new Uint8Array(statBytes);
    calls.require("fstat", calls.c.fstat(fd, buffer));
    this.path = pathOf(fd, parseStat(new DataView(buffer.buffer)));
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]();
  }
}

/** Opens `path` below `root`; see `ffi/host/files.ts`. @throws {OpenError} */
export function openBeneathBySteps(calls: Calls, root: string, path: string, directory: boolean): PathHandle {
  const { platform } = calls;
  const { hold, noFollow, nonBlock } = platform.open;
  const asFolder = platform.open.directory;
  // The folders on the way, of which `..` leaves the last one; never the first.
  const way: number[] = [];
  try {
    way.push(calls.open(platform.at.cwd, cString(root), asFolder | hold));
    const parts = partsOf(path);
    for (let links = 0; parts.length > 0;) {
      const part = parts.shift()!;
      if (part === "..") {
        if (way.length === 1) throw new CallError("openat", "EXDEV");
        calls.c.close(way.pop()!);
        continue;
      }
      const isFolder = parts.length > 0 || directory;
      const flags = hold | noFollow | nonBlock | (isFolder ? asFolder : 0);
      const found = openOrReadLink(calls, way.at(-1)!, part, flags);
      if (typeof found === "number") {
        way.push(found);
        continue;
      }
      if (++links > LINKS_MAX) throw new CallError("openat", "ELOOP");
      if (found.startsWith("/")) throw new CallError("openat", "EXDEV");
      parts.unshift(...partsOf(found));
    }
    return new HeldPath(calls, way.pop()!);
  } catch (error) {
    if (error instanceof CallError) throw new OpenError(error.code, path);
    throw error;
  } finally {
    for (const fd of way) calls.c.close(fd);
  }
}

// A mark of byte order at the beginning is a part of the name.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** @returns a descriptor, or the target of a link */
function openOrReadLink(calls: Calls, folder: number, name: string, flags: number): number | string {
  try {
    return calls.open(folder, cString(name), flags);
  } catch (error) {
    if (!(error instanceof CallError) || !MAY_BE_LINK.includes(error.code)) throw error;
    const buffer = new Uint8Array(TARGET_BYTES);
    const count = Number(calls.c.readlinkat(folder, cString(name), buffer, BigInt(buffer.length)));
    if (count < 0) throw error;
    // An entry named by bytes that are no text is not found by that text.
    return decoder.decode(buffer.subarray(0, count));
  }
}

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}
