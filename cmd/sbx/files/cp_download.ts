import { basename, dirname, join } from "node:path";
import type { FileEntry } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  type CopiedFile,
  type CopyResult,
  incompleteError,
  joinPath,
  NOT_UTF8,
  type Remote,
  requireRoom,
  type Tree,
} from "./cp_remote.ts";
import { bytesOf, findBehind } from "./cp_behind.ts";
import { reportClash } from "./cp_upload.ts";
import { withPartialFile } from "./partial_file.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { targetProblem } from "../../../lib/repo/name/mod.ts";
import { SparseWriter } from "./sparse.ts";

/** Errors of a listed file that is gone, or was replaced by a link. */
const MOVED = new Set(["file.not_found", "path.outside_workspace"]);

/** Why an entry of a type was skipped. */
const SKIPPED: Partial<Record<FileEntry["type"], string>> = {
  file: "it was moved or removed during the copy",
  symlink: "a link that leads out of the copied folder, or into .git",
};

/**
 * Copies a file or folder out of the workspace. The guest's files are not trusted: links that lead out of the
 * folder are skipped, names with `..` are rejected, nothing is written through a link below the target, and
 * files that git on this machine would obey stay behind.
 */
export async function download(remote: Remote, from: string, to: string): Promise<CopyResult> {
  const source = normalizePath(from);
  const tree = await remote.list(source);
  const name = basename(source);
  const isInside = to.endsWith("/") || await isFolder(to);
  const target = isInside && name !== "" ? join(to, name) : to;
  reportClash(await kindOf(target), target, tree !== undefined);
  if (tree === undefined) return { copied: [await downloadFile(remote, source, target)], skipped: [] };
  await createFolder(target, false);
  const behind = findBehind(tree.entries);
  const copied: CopiedFile[] = [];
  const skipped: string[] = [];
  for (const entry of tree.entries) {
    const inside = relativePath(entry.path, source);
    if (behind.has(entry.path)) continue;
    if (entry.type === "directory") {
      await createFolders(target, inside);
      continue;
    }
    const file = entry.type === "file"
      ? await downloadListed(remote, entry, target, inside)
      : entry.type === "symlink"
      ? await downloadLink(entry, target, inside)
      : undefined;
    if (file) copied.push(file);
    else {
      note(`sbx: skipped ${plain(entry.path)}: ${SKIPPED[entry.type] ?? "a special file"}`);
      skipped.push(entry.path);
    }
  }
  reportLeftOut(tree);
  reportBehind(behind);
  return { copied, skipped: [...skipped, ...tree.leftOut], behind: [...behind] };
}

function reportBehind(behind: Set<string>): void {
  if (behind.size === 0) return;
  const [first] = behind;
  const others = behind.size > 1 ? ` and ${behind.size - 1} more` : "";
  note(
    `sbx: left behind ${
      plain(first)
    }${others}: git on this machine would obey them (sbx pull takes a repository's work)`,
  );
}

/** Recreates a listed link if it stays inside the copied folder; undefined otherwise. */
async function downloadLink(
  { path, target: leads }: FileEntry,
  target: string,
  inside: string,
): Promise<CopiedFile | undefined> {
  if (leads === undefined || targetProblem(bytesOf(leads), inside.split("/").length - 1)) return undefined;
  await createFolders(target, dirname(inside));
  const to = join(target, inside);
  const info = await Deno.lstat(to).catch(() => undefined);
  if (info?.isDirectory) {
    throw new SbxError("file.conflict", `"${path}" is a link, but "${to}" is a folder`, {
      hint: "move the folder",
    });
  }
  const temporary = join(dirname(to), `.sbx-${crypto.randomUUID()}.part`);
  await Deno.symlink(leads, temporary);
  await Deno.rename(temporary, to);
  return { from: path, to, size: 0 };
}

async function kindOf(path: string): Promise<"folder" | "file" | undefined> {
  const info = await Deno.stat(path).catch(() => undefined);
  return info && (info.isDirectory ? "folder" : "file");
}

/** Copies a listed file below the target; undefined when it no longer exists. */
async function downloadListed(
  remote: Remote,
  { path, mode }: FileEntry,
  target: string,
  inside: string,
): Promise<CopiedFile | undefined> {
  await createFolders(target, dirname(inside));
  return await downloadFile(remote, path, join(target, inside), parseInt(mode, 8) & 0o777)
    .catch(requireMoved);
}

function reportLeftOut({ leftOut, leftOutCount }: Tree): void {
  for (const path of leftOut) note(`sbx: skipped ${path}: ${NOT_UTF8}`);
  const more = leftOutCount - leftOut.length;
  if (more > 0) note(`sbx: skipped ${more} more: ${NOT_UTF8}`);
}

/** Ignores a listed file that no longer exists: programs of the VM keep running during the copy. */
function requireMoved(error: unknown): undefined {
  if (error instanceof SbxError && MOVED.has(error.code)) return;
  throw error;
}

/** Normalizes a path to the form of the API's listings: relative to the workspace, without `.` and empty parts. The API rejects paths outside the workspace. */
function normalizePath(path: string): string {
  const below = /^\/workspace(?:\/|$)/.test(path) ? path.slice("/workspace/".length) : path;
  if (/^\/[/.]*$/.test(below)) {
    throw new SbxError("path.invalid", "all of a VM's files cannot be copied at once", {
      hint: "name a folder below /, such as NAME:/root; NAME: is the workspace",
    });
  }
  const parts = below.split("/").filter((part, at) => part !== "." && (part !== "" || at === 0));
  return parts.join("/");
}

/** Returns `path` relative to the copied folder. @throws {SbxError} `path.outside_workspace` */
function relativePath(path: string, source: string): string {
  const inside = source === "" ? path : path.startsWith(`${source}/`) ? path.slice(source.length + 1) : "";
  const parts = inside.split("/");
  if (
    inside !== "" &&
    parts.every((part) => part !== "" && part !== "." && part !== ".." && !part.includes("\0"))
  ) {
    return inside;
  }
  throw new SbxError(
    "path.outside_workspace",
    `the VM lists a path outside the copied folder: "${path}"`,
    {
      hint: "inspect the workspace folder on this machine; sbx info NAME shows its path",
    },
  );
}

async function createFolders(root: string, inside: string): Promise<void> {
  const parts = inside.split("/").filter((part) => part !== "" && part !== ".");
  for (let count = 1; count <= parts.length; count++) {
    await createFolder(join(root, ...parts.slice(0, count)), true);
  }
}

/** @param isStrict rejects a link to a folder, which could lead out of the target */
async function createFolder(path: string, isStrict: boolean): Promise<void> {
  const info = await (isStrict ? Deno.lstat(path) : Deno.stat(path)).catch(() => undefined);
  if (info?.isDirectory) return;
  if (info !== undefined) {
    throw new SbxError("file.conflict", `"${path}" exists and is not a folder`, {
      hint: "move it, or copy to another folder",
    });
  }
  await Deno.mkdir(path).catch((cause) => {
    throw new SbxError("file.invalid", `the folder "${path}" cannot be created`, {
      cause,
      hint: "check that its parent folder exists and is writable",
    });
  });
}

/** Writes a temporary file beside the target and renames it, so that a link at the target is replaced, not followed. */
async function downloadFile(remote: Remote, from: string, to: string, mode?: number): Promise<CopiedFile> {
  if (await isFolder(to)) {
    throw new SbxError("file.conflict", `"${from}" is a file, but "${to}" is a folder`, {
      hint: "move the folder, or copy to another path",
    });
  }
  const { body, size: expected, allocated = 0, ...found } = await remote.read(from);
  const temporary = join(dirname(to), `.sbx-${crypto.randomUUID()}.part`);
  let size = 0;
  try {
    await requireRoom(dirname(to), from, allocated);
    await withPartialFile(temporary, async () => {
      using file = await Deno.open(temporary, { write: true, createNew: true });
      const writer = new SparseWriter(file);
      for await (const chunk of body) await writer.write(chunk);
      await writer.end();
      size = writer.size;
      const written = (await file.stat()).size;
      if (written !== (expected ?? size)) throw incompleteError(to, written, expected ?? size);
      if ((mode ?? found.mode) !== undefined) await Deno.chmod(temporary, (mode ?? found.mode)!);
      await Deno.rename(temporary, to);
    });
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.PermissionDenied)) {
      throw cause;
    }
    throw new SbxError("file.invalid", `"${to}" cannot be written`, {
      cause,
      hint: "check that its folder exists and is writable",
    });
  }
  return { from: joinPath(from), to, size };
}

async function isFolder(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isDirectory, () => false);
}
