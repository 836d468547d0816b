import { basename, dirname, join } from "node:path";
import type { FileEntry } from "../../api/file.ts";
import { SbxError } from "../../base/error/mod.ts";
import { findBeneath, type Found, OpenError } from "../../../ffi/libc/beneath.ts";
import { outside, relativePath } from "./path.ts";

/** Entries of one listing; a tree with more is listed in parts. */
const MAX_ENTRIES = 10_000;

/** Permission bits of folders that are made here, whatever the umask: programs of any user in the guest may enter them. */
const FOLDER_MODE = 0o755;

/** Longest name of one file or folder, in bytes, that Linux file systems take. */
const NAME_LIMIT = 255;

/** One VM's workspace; nothing done through it reaches a file outside, whatever the guest does at the same time. */
export class Workspace {
  #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  /** Opens a regular file. @throws {SbxError} `path.outside_workspace`, `file.not_found`, `file.invalid` for what is not a file */
  async open(path: string): Promise<{ file: Deno.FsFile; size: number }> {
    const relative = relativePath(path);
    using found = this.#find(relative, path);
    const info = await Deno.stat(found.path);
    if (info.isDirectory) {
      throw new SbxError("file.invalid", `"${path}" is a folder`, { hint: "list it, or name a file in it" });
    }
    if (!info.isFile) throw new SbxError("file.invalid", `"${path}" is not a regular file`);
    return { file: await Deno.open(found.path), size: info.size };
  }

  /**
   * Writes a file in one step, making the folders that it needs.
   *
   * @param mode permission bits; set-user-id and its like are never set
   * @returns its size in bytes
   */
  async write(path: string, bytes: ReadableStream<Uint8Array>, mode = 0o644): Promise<number> {
    const relative = relativePath(path);
    if (relative === "" || path.endsWith("/")) {
      throw new SbxError("file.invalid", `"${path}" names a folder: a file needs a name`);
    }
    requireNames(relative);
    await this.#makeFolders(dirname(relative), path);
    using folder = this.#find(dirname(relative), path, true);
    const target = `${folder.path}/${relative.slice(relative.lastIndexOf("/") + 1)}`;
    if (await Deno.lstat(target).then((info) => info.isDirectory, () => false)) {
      throw new SbxError("file.invalid", `"${path}" is a folder`, { hint: "name a file in it" });
    }
    const temporary = `${folder.path}/.sbx-${crypto.randomUUID()}`;
    let size = 0;
    try {
      const file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
      await bytes.pipeThrough(count((length) => size += length)).pipeTo(file.writable);
      using written = this.#find(join(dirname(relative), basename(temporary)), path);
      await Deno.chmod(written.path, mode & 0o777);
      await Deno.rename(temporary, target);
    } catch (error) {
      await Deno.remove(temporary).catch(() => {});
      throw error;
    }
    return size;
  }

  /**
   * Makes a folder and those above it; one that is there stays as it is.
   *
   * @throws {SbxError} `path.outside_workspace`, `file.invalid` where a file is in the way
   */
  async makeFolder(path: string): Promise<void> {
    const relative = relativePath(path);
    requireNames(relative);
    await this.#makeFolders(relative === "" ? "." : relative, path);
    using _folder = this.#find(relative, path, true);
  }

  /** What is below a folder, `depth` levels deep; links are shown, never followed. */
  async list(path = "", depth = 1): Promise<{ entries: FileEntry[]; truncated: boolean }> {
    const entries: FileEntry[] = [];
    const truncated = !await this.#collect(relativePath(path), path, depth, entries);
    return { entries, truncated };
  }

  async #collect(relative: string, asked: string, depth: number, into: FileEntry[]): Promise<boolean> {
    using folder = this.#find(relative, asked, true);
    const names: string[] = [];
    for await (const { name } of Deno.readDir(folder.path)) names.push(name);
    for (const name of names.sort()) {
      const info = await Deno.lstat(`${folder.path}/${name}`).catch(() => null);
      if (!info) continue; // removed meanwhile
      if (into.length >= MAX_ENTRIES) return false;
      const path = relative === "" ? name : `${relative}/${name}`;
      into.push({
        path,
        type: info.isFile ? "file" : info.isDirectory ? "directory" : info.isSymlink ? "symlink" : "other",
        size: info.size,
        mode: ((info.mode ?? 0) & 0o7777).toString(8).padStart(4, "0"),
        modified_unix_ms: info.mtime?.getTime() ?? 0,
      });
      if (info.isDirectory && depth > 1 && !await this.#collect(path, path, depth - 1, into)) return false;
    }
    return true;
  }

  async #makeFolders(relative: string, asked: string): Promise<void> {
    if (relative === ".") return;
    const parts = relative.split("/");
    for (let i = 0; i < parts.length; i++) {
      using parent = this.#find(parts.slice(0, i).join("/"), asked, true);
      try {
        await Deno.mkdir(`${parent.path}/${parts[i]}`);
      } catch (error) {
        if (error instanceof Deno.errors.AlreadyExists) continue;
        throw error;
      }
      // By the folder that is held, and not by its name: the guest may have put a link in its place.
      using made = this.#find(parts.slice(0, i + 1).join("/"), asked, true);
      await Deno.chmod(made.path, FOLDER_MODE);
    }
  }

  #find(relative: string, asked: string, directory = false): Found {
    try {
      return findBeneath(this.#root, relative === "" ? "." : relative, { directory });
    } catch (error) {
      if (!(error instanceof OpenError)) throw error;
      if (error.code === "EXDEV" || error.code === "ELOOP") throw outside(asked);
      if (error.code === "ENOENT") {
        throw new SbxError("file.not_found", `"${asked}" is not in the VM's workspace`);
      }
      if (error.code === "ENOTDIR") {
        throw new SbxError("file.invalid", `a part of "${asked}" is not a folder`);
      }
      throw new SbxError("file.invalid", `"${asked}" cannot be opened (${error.code})`, { cause: error });
    }
  }
}

/** @throws {SbxError} `file.invalid` for a name that no file system takes */
function requireNames(relative: string): void {
  const long = relative.split("/").find((part) => new TextEncoder().encode(part).length > NAME_LIMIT);
  if (long === undefined) return;
  throw new SbxError("file.invalid", `a name may have at most ${NAME_LIMIT} bytes: "${long.slice(0, 40)}…"`);
}

function count(onBytes: (length: number) => void): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform(chunk, controller) {
      onBytes(chunk.length);
      controller.enqueue(chunk);
    },
  });
}
