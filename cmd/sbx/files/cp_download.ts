/** `sbx cp` out of a VM. The listing and the bytes are the guest's, so none is trusted. */
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
  reportClash,
  requireRoom,
  type Tree,
} from "./cp_remote.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { isDotGit, targetProblem } from "../../../lib/repo/name/mod.ts";
import { Buffer } from "node:buffer";
import { writeAll } from "../../../lib/base/wire/mod.ts";

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
  for (const path of leftOut) note(`sbx: skipped ${plain(path)}: ${NOT_UTF8}`);
  const more = leftOutCount - leftOut.length;
  if (more > 0) note(`sbx: skipped ${more} more: ${NOT_UTF8}`);
}

/** Ignores a listed file that no longer exists: programs of the VM keep running during the copy. */
function requireMoved(error: unknown): undefined {
  if (error instanceof SbxError && MOVED.has(error.code)) return;
  throw error;
}

/**
 * Normalizes a path to the form of the API's listings: relative to the workspace, without `.` and empty
 * parts. The API rejects paths outside the workspace.
 */
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

/**
 * Writes a temporary file beside the target and renames it, so that a link at the
 * target is replaced, not followed.
 */
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

/** Entries below a git folder that name programs, or lead to another git folder. */
const OBEYED =
  /^(?:(?:worktrees\/[^/]+\/)?(?:config|config\.worktree|hooks(?:\/.*)?|commondir|gitdir)|info\/attributes|objects\/info\/(?:http-)?alternates)$/;

/**
 * Paths of a listing to leave behind, since git on this machine would obey them: `.git` in any spelling, and
 * bare repositories under any name.
 */
export function findBehind(entries: FileEntry[]): Set<string> {
  const names = namesOf(entries);
  const isGitFolder = (folder: string) => isNamedGit(folder) || isRepository(names.get(folder) ?? new Set());
  /** git folders above a path, by its folder: few, however deep it is */
  const above = new Map<string, string[]>();
  const gitAbove = (folder: string): string[] => {
    const unknown: string[] = [];
    for (let each = folder; !above.has(each); [each] = split(each)) {
      unknown.push(each);
      if (each === "") break;
    }
    let found = above.get(split(unknown.at(-1) ?? folder)[0]) ?? [];
    for (const each of unknown.reverse()) {
      above.set(each, found = isGitFolder(each) ? [...found, each] : found);
    }
    return above.get(folder)!;
  };
  const behind = new Set<string>();
  for (const { path, type } of entries) {
    if (type !== "directory" && isNamedGit(path)) behind.add(path);
    const isObeyed = (folder: string) =>
      OBEYED.test((folder === "" ? path : path.slice(folder.length + 1)).toLowerCase());
    if (gitAbove(split(path)[0]).some(isObeyed)) behind.add(path);
  }
  return behind;
}

/**
 * Names in each folder. A guest may list the entries of a folder without the folder, which the copy makes.
 */
function namesOf(entries: FileEntry[]): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  const seen = new Set<string>();
  for (const { path } of entries) {
    for (let rest = path; rest !== "" && !seen.has(rest);) {
      seen.add(rest);
      const [folder, name] = split(rest);
      names.set(folder, (names.get(folder) ?? new Set()).add(name.toLowerCase()));
      rest = folder;
    }
  }
  return names;
}

/** Entries by which git recognises a repository (gitrepository-layout(5)). */
function isRepository(names: Set<string>): boolean {
  return names.has("head") && (names.has("objects") && names.has("refs") || names.has("commondir"));
}

function isNamedGit(path: string): boolean {
  return isDotGit(bytesOf(split(path)[1]));
}

function split(path: string): [folder: string, name: string] {
  const at = path.lastIndexOf("/");
  return [path.slice(0, Math.max(at, 0)), path.slice(at + 1)];
}

/** UTF-8 as one character per byte. */
function bytesOf(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

/** Signals by which a person ends a command, with their numbers: the exit code is 128 more. */
const SIGNALS: [Deno.Signal, number][] = [["SIGINT", 2], ["SIGTERM", 15], ["SIGHUP", 1]];

/**
 * Runs `write`, which makes the file `path` and renames it. Whatever ends it, a
 * signal too, no partial file is left.
 */
export async function withPartialFile<T>(path: string, write: () => Promise<T>): Promise<T> {
  const ends = SIGNALS.map(([signal, number]) => ({ signal, end: () => endBySignal(path, number) }));
  for (const { signal, end } of ends) Deno.addSignalListener(signal, end);
  try {
    return await write();
  } catch (error) {
    remove(path);
    throw error;
  } finally {
    for (const { signal, end } of ends) Deno.removeSignalListener(signal, end);
  }
}

function endBySignal(path: string, number: number): never {
  remove(path);
  Deno.exit(128 + number);
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // not made yet, or renamed already
  }
}

/** Unit of holes, in `bytes`: a block of common file systems. */
const BLOCK = 4096;
const ZEROS = new Uint8Array(BLOCK);

/**
 * Writes a new file from its beginning and leaves holes for blocks of zeros, so that a sparse file takes no
 * more space than its source.
 */
export class SparseWriter {
  /** `bytes` so far, holes included */
  size = 0;
  /** current end of the file */
  #written = 0;

  constructor(readonly file: Deno.FsFile) {}

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const isHole = isZero(bytes.subarray(at, this.#blockEnd(bytes, at)));
      let end = at;
      do {
        end = this.#blockEnd(bytes, end, at);
      } while (end < bytes.length && isZero(bytes.subarray(end, this.#blockEnd(bytes, end, at))) === isHole);
      if (!isHole) await this.#put(bytes.subarray(at, end));
      this.size += end - at;
      at = end;
    }
  }

  /** Gives the file its size, which a hole at its end does not. */
  async end(): Promise<void> {
    if (this.#written !== this.size) await this.file.truncate(this.size);
  }

  async #put(part: Uint8Array): Promise<void> {
    if (this.#written !== this.size) await this.file.seek(this.size, Deno.SeekMode.Start);
    await writeAll(this.file, part);
    this.#written = this.size + part.length;
  }

  /**
   * End of the file block that contains `start`; pieces may begin and end within blocks.
   *
   * @param at where the bytes behind {@linkcode size} begin
   */
  #blockEnd(bytes: Uint8Array, start: number, at = start): number {
    return Math.min(start + BLOCK - (this.size + start - at) % BLOCK, bytes.length);
  }
}

function isZero(bytes: Uint8Array): boolean {
  return Buffer.compare(bytes, bytes.length === BLOCK ? ZEROS : ZEROS.subarray(0, bytes.length)) === 0;
}
