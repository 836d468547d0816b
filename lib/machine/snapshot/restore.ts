/**
 * Putting files back: each is written beside its place and renamed, below the
 * workspace and without following a link.
 */
import { CallError } from "../../../ffi/libc/descriptor.ts";
import type { Descriptor, Folder } from "../../../ffi/host/handle.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Change } from "./diff.ts";
import { type BytePath, bytesOf, type Entry, split } from "./entry.ts";
import type { Objects } from "./objects.ts";
import type { Pace } from "./pace.ts";

/** A path that was not restored, and the reason. */
export interface Failure {
  path: BytePath;
  why: string;
}

interface Target {
  workspace: Folder;
  objects: Objects;
  pace: Pace;
}

/** Permission bits of a folder while it is filled. */
const FILLING_MODE = 0o700;

/**
 * Makes changes to a workspace. One that fails is named, and the others are made.
 *
 * @param now the workspace as it was read: a path that has changed since is left alone
 */
export async function apply(
  changes: Change[],
  now: ReadonlyMap<BytePath, Entry>,
  target: Target,
): Promise<Failure[]> {
  const failed: Failure[] = [];
  const run = async (list: Change[], action: (folder: Folder, change: Change) => Promise<void> | void) => {
    for (const change of list) {
      try {
        using folder = target.workspace.folder(bytesOf(split(change.path).folder));
        await action(folder, change);
      } catch (error) {
        if (!(error instanceof CallError || error instanceof SbxError)) throw error;
        // Without room for this file, the next ones do not fit either; removals and small files continue.
        failed.push({ path: change.path, why: error instanceof SbxError ? error.message : wordsOf(error) });
      }
      await target.pace.tick();
    }
  };
  const folders = changes.filter(({ after }) => after?.type === "folder");
  // Deepest first: a folder must be empty, and one in the way of a file goes with its content.
  const gone = changes.filter(({ before, after }) =>
    !after || before?.type === "folder" && after.type !== "folder"
  );
  await run(gone.toReversed(), (folder, change) => removeEntry(folder, change, now));
  await run(folders, (folder, change) => makeFolder(folder, change, now));
  await run(
    changes.filter(({ after }) => after && after.type !== "folder"),
    (folder, change) => putEntry(folder, change, now, target),
  );
  // Last: a folder that may not be written would refuse its own files, and each
  // file changes its folder's time.
  await run(folders.toReversed(), (folder, change) => finishFolder(folder, change));
  return failed;
}

function removeEntry(folder: Folder, { path, before }: Change, now: ReadonlyMap<BytePath, Entry>): void {
  const name = bytesOf(split(path).name);
  if (!requireUnchanged(folder, path, now)) return;
  if (before!.type === "folder") folder.removeFolder(name);
  else folder.remove(name);
}

function makeFolder(folder: Folder, { path, before }: Change, now: ReadonlyMap<BytePath, Entry>): void {
  const name = bytesOf(split(path).name);
  if (folder.statOf(name)?.type === "folder") return;
  requireUnchanged(folder, path, now);
  if (before && before.type !== "folder") folder.remove(name);
  folder.makeFolder(name, FILLING_MODE);
}

function finishFolder(folder: Folder, { path, after }: Change): void {
  using made = folder.folder(bytesOf(split(path).name));
  made.tryChown(after!.uid, after!.gid);
  made.chmod(after!.mode);
  setTime(made, after!);
}

async function putEntry(
  folder: Folder,
  { path, change, after }: Change,
  now: ReadonlyMap<BytePath, Entry>,
  { objects, pace }: Target,
): Promise<void> {
  const entry = after!;
  const name = bytesOf(split(path).name);
  if (change === "mode") {
    using file = folder.openFile(name);
    requireUnchanged(folder, path, now);
    return file?.chmod(entry.mode);
  }
  const temporary = bytesOf(`.sbx-${crypto.randomUUID()}`);
  try {
    if (entry.type === "link") {
      folder.makeLink(temporary, bytesOf(entry.target!));
      folder.tryChownOf(temporary, entry.uid, entry.gid);
      folder.setTimeOf(temporary, ...timeOf(entry));
    } else {
      using file = folder.create(temporary);
      await objects.copy(entry.object!, entry.size, file, pace);
      file.tryChown(entry.uid, entry.gid);
      file.chmod(entry.mode);
      setTime(file, entry);
    }
    requireUnchanged(folder, path, now);
    folder.rename(temporary, name);
  } catch (error) {
    removeQuietly(folder, temporary);
    throw error;
  }
}

/**
 * Checks that the place is as it was read: later writes of a guest's program are in no snapshot.
 *
 * @returns whether anything is there
 * @throws {SbxError} `file.conflict`
 */
function requireUnchanged(folder: Folder, path: BytePath, now: ReadonlyMap<BytePath, Entry>): boolean {
  const stat = folder.statOf(bytesOf(split(path).name));
  const was = now.get(path);
  // A folder changes with every entry added or removed; removing it needs it to be empty.
  const isAsRead = !stat || stat.type === "folder" && was?.type === "folder" ||
    was && withoutCtime(was.stamp) === withoutCtime(stat.stamp) ||
    was?.type === "other" && stat.type === "other";
  if (!isAsRead) throw new SbxError("file.conflict", "changed meanwhile by a program of the VM");
  return stat !== undefined;
}

/** A stamp that stays when another name of the same file is removed, as this restore does. */
function withoutCtime(stamp: string): string {
  return stamp.slice(0, stamp.lastIndexOf(":"));
}

function setTime(file: Descriptor, entry: Entry): void {
  file.setTime(...timeOf(entry));
}

function timeOf({ mtime }: Entry): [bigint, bigint] {
  const [seconds, nanoseconds] = mtime.split(".").map(BigInt);
  return [seconds, nanoseconds];
}

function removeQuietly(folder: Folder, name: Uint8Array<ArrayBuffer>): void {
  try {
    folder.remove(name);
  } catch {
    // It was never made, or a program of the guest removed it.
  }
}

const WORDS: Record<string, string> = {
  ENOSPC: "no space left on the disk",
  EDQUOT: "no space left in the quota",
  EACCES: "this user may not write there",
  EPERM: "this user may not write there",
  ENOTEMPTY: "the folder has entries that no snapshot has",
  EISDIR: "a folder is in its place",
  ENOTDIR: "a file is in the place of its folder",
  ENOENT: "its folder is gone",
  ELOOP: "a link is in the place of its folder",
  EXDEV: "a link is in the place of its folder",
};

function wordsOf({ code }: CallError): string {
  return WORDS[code] ?? code;
}
