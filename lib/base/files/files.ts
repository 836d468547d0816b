/** No `node:path`, which takes a quarter of a second to load in an emulated guest. */
import { OpenError } from "../../../ffi/libc/beneath.ts";
import { ifFound, ignore, SbxError } from "../error/mod.ts";
import { writeAll } from "../wire/mod.ts";
import { type FileCalls, type FileList, FileLister, type OpenPath } from "./list.ts";

/** Permission bits of new folders, whatever the umask: programs of any user in the guest may enter them. */
const FOLDER_MODE = 0o755;

/** Unit of the blocks that a file takes, in `bytes` (stat(2)). */
const BLOCK_UNIT = 512;

/** Longest name of a file or folder on Linux file systems, in `bytes`. */
const NAME_LIMIT = 255;

/** Longest target of a link on Linux, in `bytes`. */
const TARGET_LIMIT = 4095;

const encoder = new TextEncoder();

/**
 * A tree of files. No operation reaches a file outside, whatever another program does in it at the same time.
 */
export class Files {
  readonly #root: string;
  readonly #calls: FileCalls;

  constructor(root: string, calls: FileCalls) {
    this.#root = root;
    this.#calls = calls;
  }

  /** A user's path, relative to the root; the root is "". @throws {SbxError} it is not below the root */
  protected relative(path: string): string {
    const plain = plainPath(path);
    if (plain === undefined) throw this.outside(path);
    return plain;
  }

  protected outside(path: string): SbxError {
    return new SbxError("path.outside_workspace", `"${path}" leads out of ${this.place}`);
  }

  /** The tree in errors. */
  protected get place(): string {
    return this.#root;
  }

  /**
   * Opens a regular file. `allocated` are the `bytes` it takes on the disk, fewer
   * than its size where it has holes.
   *
   * @throws {SbxError} `path.outside_workspace`, `file.not_found`; `file.invalid`: not a regular file
   */
  async open(path: string): Promise<{ file: Deno.FsFile; size: number; allocated: number; mode: number }> {
    const relative = this.relative(path);
    using found = this.#find(relative, path);
    const info = await Deno.stat(found.path);
    if (info.isDirectory) {
      throw new SbxError("file.invalid", `"${path}" is a folder`, { hint: "list it, or name a file in it" });
    }
    if (!info.isFile) throw new SbxError("file.invalid", `"${path}" is not a regular file`);
    const allocated = info.blocks === null ? info.size : Math.min(info.size, info.blocks * BLOCK_UNIT);
    const mode = (info.mode ?? 0o644) & 0o777;
    return { file: await Deno.open(found.path), size: info.size, allocated, mode };
  }

  /**
   * Writes a file atomically, and makes the folders above it.
   *
   * @param mode permission bits; set-user-id and the like are never set
   * @param complete called with all of the bytes written, before the file has its
   * name; its failure leaves no file
   * @returns its size in `bytes`
   * @throws {SbxError} `file.conflict`: another program removed its folder meanwhile
   */
  async write(
    path: string,
    bytes: ReadableStream<Uint8Array>,
    mode = 0o644,
    complete?: (size: number) => Promise<void>,
  ): Promise<number> {
    const relative = this.relative(path);
    if (relative === "" || path.endsWith("/")) {
      throw new SbxError("file.invalid", `"${path}" names a folder: a file needs a name`);
    }
    requireNames(relative);
    using folder = await this.#openFolder(folderOf(relative), path);
    const target = `${folder.path}/${nameOf(relative)}`;
    requireNoFolder(await ifFound(Deno.lstat(target)), path);
    const temporary = `${folder.path}/.sbx-${crypto.randomUUID()}`;
    let size = 0;
    try {
      const create = () => Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
      using file = await writeInto(folder, path, create);
      // No pipeTo(file.writable): it settles without an error when the last write finds no space.
      for await (const chunk of bytes) {
        await writeAll(file, chunk);
        size += chunk.length;
      }
      if ((await file.stat()).size !== size) {
        throw new SbxError("file.conflict", `"${path}" was changed while it was written`, {
          hint: "write it again; a program of the VM changes files whose names begin with .sbx-",
        });
      }
      await complete?.(size);
      await writeInto(folder, path, async () => {
        using written = this.#find([folderOf(relative), nameOf(temporary)].filter(Boolean).join("/"), path);
        await Deno.chmod(written.path, mode & 0o777);
        await Deno.rename(temporary, target);
      });
    } catch (error) {
      await Deno.remove(temporary).catch(ignore("it may be gone with its folder"));
      throw error;
    }
    return size;
  }

  /**
   * Makes a symbolic link atomically, and the folders above it. Only the guest follows it.
   *
   * @throws {SbxError} `file.invalid`: an empty or long target, a folder is in the way; `file.conflict`:
   * another program removed its folder meanwhile
   */
  async makeLink(path: string, target: string): Promise<void> {
    const relative = this.relative(path);
    requireNames(relative);
    if (
      relative === "" || target === "" || target.includes("\0") ||
      encoder.encode(target).length > TARGET_LIMIT
    ) {
      throw new SbxError("file.invalid", `"${path}" cannot be a link to that path`);
    }
    using folder = await this.#openFolder(folderOf(relative), path);
    const place = `${folder.path}/${nameOf(relative)}`;
    requireNoFolder(await ifFound(Deno.lstat(place)), path);
    const temporary = `${folder.path}/.sbx-${crypto.randomUUID()}`;
    await writeInto(folder, path, async () => {
      await Deno.symlink(target, temporary);
      await Deno.rename(temporary, place).catch(async (error) => {
        await Deno.remove(temporary).catch(ignore("it may be gone with its folder"));
        throw error;
      });
    });
  }

  /**
   * Makes a folder and those above it; an existing one stays as it is.
   *
   * @throws {SbxError} `path.outside_workspace`; `file.invalid`: a file is in the way
   */
  async makeFolder(path: string): Promise<void> {
    const relative = this.relative(path);
    requireNames(relative);
    using _folder = await this.#openFolder(relative, path);
  }

  /**
   * Lists a folder, `depth` levels deep; links are listed, never followed.
   *
   * @param cursor `next_cursor` of the page before
   * @throws {SbxError} `request.invalid`: a cursor that is not of this folder
   */
  async list(path = "", depth = 1, cursor?: string): Promise<FileList> {
    const relative = this.relative(path);
    if (cursor !== undefined && !this.#isBelow(cursor, relative)) {
      throw new SbxError(
        "request.invalid",
        `the cursor "${cursor}" does not belong to the folder "${path}"`,
        {
          hint: "pass next_cursor of the page before, with the same path and depth",
        },
      );
    }
    const open = (folder: string) => this.#find(folder, path, true);
    return await new FileLister(open, this.#calls.readNames).list(relative, depth, cursor);
  }

  /** Makes a folder and those above it, and opens it. */
  async #openFolder(relative: string, userPath: string): Promise<OpenPath> {
    try {
      await this.#makeFolders(relative, userPath);
      return this.#find(relative, userPath, true);
    } catch (error) {
      throw isNotFound(error) ? removedFolder(userPath, error) : error;
    }
  }

  async #makeFolders(relative: string, userPath: string): Promise<void> {
    if (relative === "") return;
    const parts = relative.split("/");
    for (let i = 0; i < parts.length; i++) {
      using parent = this.#find(parts.slice(0, i).join("/"), userPath, true);
      try {
        await writeInto(parent, userPath, () => Deno.mkdir(`${parent.path}/${parts[i]}`));
      } catch (error) {
        if (error instanceof Deno.errors.AlreadyExists) continue;
        throw error;
      }
      // By the open folder, not by its name: the guest may have put a link in its place.
      using made = this.#find(parts.slice(0, i + 1).join("/"), userPath, true);
      await Deno.chmod(made.path, FOLDER_MODE);
    }
  }

  /** Tests whether a cursor is a path below a folder. */
  #isBelow(cursor: string, relative: string): boolean {
    return this.relative(cursor) === cursor && (relative === "" || cursor.startsWith(`${relative}/`));
  }

  #find(relative: string, userPath: string, directory = false): OpenPath {
    try {
      return this.#calls.openBeneath(this.#root, relative === "" ? "." : relative, { directory });
    } catch (error) {
      if (!(error instanceof OpenError)) throw error;
      if (error.code === "EXDEV" || error.code === "ELOOP") throw this.outside(userPath);
      if (error.code === "ENOENT") {
        throw new SbxError("file.not_found", `"${userPath}" is not in ${this.place}`);
      }
      if (error.code === "ENOTDIR") {
        throw new SbxError("file.invalid", `a part of "${userPath}" is not a folder`);
      }
      throw new SbxError("file.invalid", `"${userPath}" cannot be opened (${error.code})`, { cause: error });
    }
  }
}

/**
 * Runs a step of a write into an open folder.
 *
 * @throws {SbxError} `file.conflict`: a program of the VM removed the folder
 */
async function writeInto<T>(folder: OpenPath, userPath: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound || isNotFound(error);
    // Not every folder takes new names: /proc has none for a folder that exists.
    if (isMissing && await isRemoved(folder)) throw removedFolder(userPath, error);
    throw error;
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof SbxError && error.code === "file.not_found";
}

/** Tests whether an open folder has lost its name. */
async function isRemoved({ path }: OpenPath): Promise<boolean> {
  try {
    return (await Deno.stat(path)).nlink === 0;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return true;
    throw error;
  }
}

function removedFolder(userPath: string, cause: unknown): SbxError {
  return new SbxError("file.conflict", `the folder of "${userPath}" was removed while it was written`, {
    cause,
    hint: "write it again; a program of the VM removed the folder",
  });
}

/** @throws {SbxError} `file.invalid` */
function requireNoFolder(info: Deno.FileInfo | undefined, path: string): void {
  if (!info?.isDirectory) return;
  throw new SbxError("file.invalid", `"${path}" is a folder`, { hint: "name a file in it" });
}

/** @throws {SbxError} `file.invalid`: a name is too long for file systems */
function requireNames(relative: string): void {
  const long = relative.split("/").find((part) => new TextEncoder().encode(part).length > NAME_LIMIT);
  if (long === undefined) return;
  throw new SbxError("file.invalid", `a name may have at most ${NAME_LIMIT} bytes: "${long.slice(0, 40)}…"`);
}

/** The folder of a relative path; "" for a name of the root. */
function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/**
 * A relative path without empty parts and `.`; undefined: it is absolute or has a `..`.
 *
 * @throws {SbxError} `path.invalid`: a path with NUL
 */
export function plainPath(path: string): string | undefined {
  if (path.includes("\0")) throw new SbxError("path.invalid", "a path may not contain NUL");
  const parts = path.split("/");
  if (path.startsWith("/") || parts.includes("..")) return undefined;
  return parts.filter((part) => part !== "" && part !== ".").join("/");
}
