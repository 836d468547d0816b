import { CallError } from "../../../ffi/libc/descriptor.ts";
import type { Folder } from "../../../ffi/host/handle.ts";
import { freeBytes } from "../../base/disk/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { formatBytes } from "../../base/progress/mod.ts";
import { type Entry, entryOf, leftOut } from "./entry.ts";
import type { Objects } from "./objects.ts";
import type { Pace } from "./pace.ts";
import { type BytePath, bytesOf, split } from "./path.ts";
import { type Found, isGone, walk } from "./walk.ts";

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

/** Takes the content of the capture before, if the file is certainly the same. @returns false: it must be read */
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
