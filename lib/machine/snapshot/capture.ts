/** Walks a workspace, and captures its entries into a snapshot. */
import { CallError } from "../../../ffi/libc/descriptor.ts";
import type { Folder } from "../../../ffi/host/handle.ts";
import { freeBytes } from "../../base/disk/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { formatBytes } from "../../base/progress/mod.ts";
import {
  type BytePath,
  bytesOf,
  type Entry,
  entryOf,
  join,
  leftOut,
  pathOf,
  split,
  toText,
} from "./entry.ts";
import type { Objects } from "./objects.ts";
import type { Pace } from "./pace.ts";

/** Reads of a file that changes while it is read; the last one is kept. */
const READS = 3;
/**
 * Age in `s` from which a file's modification time distinguishes it from a later change: a write in the same
 * clock tick as the read leaves no other trace. Git's index does the same.
 */
const RACY_S = 2;

/** The state of a workspace as read. */
export interface Capture {
  started_unix_ms: number;
  entries: Map<BytePath, Entry>;
  /** files that changed while they were read */
  changing: number;
}

/** The capture before, whose contents need not be read again. */
export type Previous = Pick<Capture, "started_unix_ms" | "entries">;

export interface CaptureOptions {
  workspace: Folder;
  objects: Objects;
  previous?: Previous;
  pace: Pace;
  /** false: contents are only compared, not kept */
  store: boolean;
  /** folder on the disk of the store, and the `bytes` to leave free there */
  disk: { path: string; keep: number };
}

/**
 * Reads a workspace: all of its metadata, and the contents of files that changed since the previous capture.
 *
 * @throws {SbxError} `disk.full` before anything is stored; `snapshot.too_large`
 */
export async function capture(options: CaptureOptions): Promise<Capture> {
  const { workspace, previous, pace, store } = options;
  const started_unix_ms = Date.now();
  const found = await walk(workspace, pace);
  const unread = [...found.values()].filter((file) => !reuse(file.entry, previous));
  if (store) await requireRoom(unread, options);
  const result: Capture = { started_unix_ms, entries: new Map(), changing: 0 };
  for (const [path, { entry }] of found) result.entries.set(path, entry);
  for (const [folder, names] of byFolder(unread)) {
    const gone = (name: BytePath, error: CallError) => putFailure(result, name, error);
    try {
      using opened = workspace.folder(bytesOf(folder));
      for (const path of names) {
        try {
          await readFile(opened, path, options, result);
        } catch (error) {
          if (!(error instanceof CallError) || isOfTheStore(error)) throw error;
          gone(path, error);
        }
        await pace.tick();
      }
    } catch (error) {
      if (!(error instanceof CallError) || isOfTheStore(error)) throw error;
      for (const path of names) if (!result.entries.get(path)?.object) gone(path, error);
    }
  }
  return result;
}

/**
 * Takes the content of the capture before, if the file is certainly the same.
 * @returns false: it must be read
 */
function reuse(entry: Entry, previous: Previous | undefined): boolean {
  if (entry.type !== "file") return true;
  const was = previous?.entries.get(entry.path);
  if (!was?.object || was.stamp !== entry.stamp) return false;
  if (was.ctime >= previous!.started_unix_ms / 1000 - RACY_S) return false;
  entry.object = was.object;
  return true;
}

async function readFile(
  folder: Folder,
  path: BytePath,
  { objects, pace, store }: CaptureOptions,
  result: Capture,
): Promise<void> {
  using file = folder.openFile(bytesOf(split(path).name));
  // A folder or a device replaced the file: the old content is lost, the new comes with the next snapshot.
  if (!file) return void result.entries.set(path, leftOut(path, "replaced while it was read"));
  for (let reads = 1;; reads++) {
    const stat = file.stat();
    const entry: Entry = { ...entryOf(path, stat), object: await objects.add(file, stat, pace, store) };
    const isWhole = file.stat().stamp === stat.stamp;
    if (!isWhole && reads < READS) continue;
    if (!isWhole) {
      entry.stamp = "";
      result.changing++;
    }
    return void result.entries.set(path, entry);
  }
}

function putFailure({ entries }: Capture, path: BytePath, error: CallError): void {
  if (isGone(error)) entries.delete(path);
  else entries.set(path, leftOut(path, error.code));
}

/** Failures of writing, or of this process, which say nothing about one file of the workspace. */
function isOfTheStore({ code }: CallError): boolean {
  return ["ENOSPC", "EDQUOT", "EMFILE", "EFBIG"].includes(code);
}

function byFolder(files: Found[]): Map<BytePath, BytePath[]> {
  return Map.groupBy(files.map(({ entry }) => entry.path), (path) => split(path).folder);
}

async function requireRoom(files: Found[], { workspace, objects, disk }: CaptureOptions): Promise<void> {
  const needed = files.reduce((sum, { allocated }) => sum + allocated, 0);
  const free = await freeBytes(disk.path);
  if (needed === 0 || needed <= free - disk.keep) return;
  if (sharesBlocks(workspace, objects, files)) return;
  throw new SbxError(
    "disk.full",
    `a snapshot of the workspace needs up to ${formatBytes(needed)}, and ${formatBytes(free)} are free`,
    { hint: "free some space, or remove snapshots: sbx snapshots delete NAME ID" },
  );
}

/** True if this file system stores the copy of a file without room: tried with the largest one. */
function sharesBlocks(workspace: Folder, objects: Objects, files: Found[]): boolean {
  const { entry } = files.reduce((largest, file) => file.allocated > largest.allocated ? file : largest);
  const { folder, name } = split(entry.path);
  try {
    using opened = workspace.folder(bytesOf(folder));
    using file = opened.openFile(bytesOf(name));
    return file !== undefined && objects.canClone(file);
  } catch {
    return false;
  }
}

/**
 * Most entries of a workspace that snapshots take (docs/design/contracts/14-limits.md §14): a guest must not
 * fill the service's memory.
 */
const ENTRIES_MAX = 500_000;
/** Longest path, in `bytes` (PATH_MAX). */
const PATH_MAX = 4096;

/** A file of a workspace, with its size on the disk. */
interface Found {
  entry: Entry;
  allocated: number;
}

/**
 * Every entry below a folder, as it is when its own folder is read: a tree that changes meanwhile is no point
 * in time. Only metadata and targets of links are read; no link is followed, and nothing outside is touched.
 *
 * @throws {SbxError} `snapshot.too_large`
 */
async function walk(root: Folder, pace: Pace, max = ENTRIES_MAX): Promise<Map<BytePath, Found>> {
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
function isGone({ code }: CallError): boolean {
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
