import { CallError } from "../../../ffi/libc/descriptor.ts";
import type { Folder } from "../../../ffi/host/handle.ts";
import { SbxError } from "../../base/error/mod.ts";
import { type Entry, entryOf, leftOut } from "./entry.ts";
import type { Pace } from "./pace.ts";
import { type BytePath, bytesOf, join, pathOf, toText } from "./path.ts";

/**
 * Most entries of a workspace that snapshots take (docs/design/contracts/14-limits.md §14): a guest must not
 * fill the service's memory.
 */
export const ENTRIES_MAX = 500_000;
/** Longest path, in `bytes` (PATH_MAX). */
const PATH_MAX = 4096;

/** A file of a workspace, with its size on the disk. */
export interface Found {
  entry: Entry;
  allocated: number;
}

/**
 * Every entry below a folder, as it is when its own folder is read: a tree that changes meanwhile is no point in time. Only
 * metadata and targets of links are read; no link is followed, and nothing outside is touched.
 *
 * @throws {SbxError} `snapshot.too_large`
 */
export async function walk(root: Folder, pace: Pace, max = ENTRIES_MAX): Promise<Map<BytePath, Found>> {
  const found = new Map<BytePath, Found>();
  const folders: BytePath[] = [""];
  for (let path = folders.pop(); path !== undefined; path = folders.pop()) {
    try {
      using folder = root.folder(bytesOf(path));
      for (const name of folder.names()) {
        const entry = readEntry(folder, name, join(path, pathOf(name)));
        if (!entry) continue;
        found.set(entry.entry.path, entry);
        if (entry.entry.type === "folder") folders.push(entry.entry.path);
        if (found.size > max) throw tooLarge(max);
        const turn = pace.tick();
        if (turn) await turn;
      }
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      // The workspace itself must be readable; a folder that is gone has no entries.
      if (path === "") throw error;
      if (isGone(error)) found.delete(path);
      else found.set(path, { entry: leftOut(path, error.code), allocated: 0 });
    }
  }
  return found;
}

function readEntry(folder: Folder, name: Uint8Array<ArrayBuffer>, path: BytePath): Found | undefined {
  if (path.length >= PATH_MAX) return { entry: leftOut(path, "path too long"), allocated: 0 };
  try {
    const stat = folder.statOf(name);
    if (!stat) return undefined;
    if (stat.type === "other") return { entry: leftOut(path, "device, pipe or socket"), allocated: 0 };
    const entry = entryOf(path, stat);
    if (stat.type === "link") entry.target = pathOf(folder.readLink(name));
    return { entry, allocated: stat.allocated };
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    // Replaced between the two calls, as a link that became a file: it is in the next snapshot.
    if (isGone(error)) return undefined;
    return { entry: leftOut(path, error.code), allocated: 0 };
  }
}

/** The file went away or became something else meanwhile. */
export function isGone({ code }: CallError): boolean {
  return ["ENOENT", "ENOTDIR", "ELOOP", "EXDEV"].includes(code);
}

function tooLarge(max: number): SbxError {
  return new SbxError("snapshot.too_large", `the workspace has more than ${max} files`, {
    hint: "snapshots are not possible while it has; remove files, or keep them outside of /workspace",
  });
}

/** Entries that a snapshot names and does not have, for a person. */
export function leftOutOf(entries: Iterable<Entry>, max: number): { path: string; why: string }[] {
  const out = [];
  for (const { type, path, target } of entries) {
    if (type !== "other") continue;
    if (out.length === max) break;
    out.push({ path: toText(path), why: target ?? "" });
  }
  return out;
}
