/** The VM's side of `sbx cp`: its files over the API, and what both directions of a copy share. */
import { statfs } from "node:fs/promises";
import type { FileEntry, FileList, FileWritten, VmInfo } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";

/** Levels of folders that the service lists at once. */
const DEPTH_MAX = 32;

/**
 * Most entries of one copied folder (docs/design/contracts/14-limits.md §14): a hostile guest can list any
 * number.
 */
const ENTRIES_MAX = 1_000_000;

/** Reason why a file is skipped: requests have no form for its name. */
export const NOT_UTF8 = "its name is not UTF-8; rename it to copy it";

/** A copied file. */
export interface CopiedFile {
  from: string;
  to: string;
  /** `bytes` */
  size: number;
}

/** Result of a copy. */
export interface CopyResult {
  copied: CopiedFile[];
  /** paths */
  skipped: string[];
  /** paths of a repository that are not copied on purpose */
  behind?: string[];
}

/** Everything below a folder of a workspace. */
export interface Tree {
  entries: FileEntry[];
  /** escaped paths whose names are not UTF-8, and so cannot be copied */
  leftOut: string[];
  /** number of such names; `leftOut` may have fewer */
  leftOutCount: number;
}

/** A file of a VM, with the attributes that the service reports. */
export interface OpenRemote {
  body: AsyncIterable<Uint8Array>;
  /** `bytes` */
  size?: number;
  /** `bytes` without its holes */
  allocated?: number;
  /** permission bits */
  mode?: number;
}

/** A VM's files, accessed through the API. */
export class Remote {
  readonly #client: Client;
  readonly #vm: string;

  /** @param vm name or id, encoded for a path */
  constructor(client: Client, vm: string) {
    this.#client = client;
    this.#vm = vm;
  }

  /**
   * Lists everything below a folder, page by page; undefined if `path` is a file.
   *
   * @throws {SbxError} `guest.failed`, `repo.too_large`: a listing without an end
   */
  async list(path: string): Promise<Tree | undefined> {
    const tree: Tree = { entries: [], leftOut: [], leftOutCount: 0 };
    const folders = [path];
    try {
      for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
        for await (const { entries, left_out, left_out_count } of this.#pages(folder)) {
          tree.entries.push(...entries);
          tree.leftOut.push(...left_out);
          tree.leftOutCount += left_out_count;
          if (tree.entries.length + tree.leftOutCount > ENTRIES_MAX) throw tooLargeError(path);
          folders.push(...entries.filter((entry) => isDeepest(entry, folder!)).map(({ path }) => path));
        }
      }
      return tree;
    } catch (error) {
      if (error instanceof SbxError && error.code === "file.invalid") return undefined;
      throw error;
    }
  }

  async *#pages(folder: string): AsyncGenerator<FileList> {
    for (let cursor: string | undefined, more = true; more;) {
      const query = { path: folder, depth: DEPTH_MAX, cursor };
      const page = await this.#client.json<FileList>("GET", this.#url("list"), { query });
      const isEmpty = page.entries.length + page.left_out_count === 0;
      // The guest says which page is the last, and may never say so.
      if (page.truncated && (isEmpty || page.next_cursor === undefined || page.next_cursor === cursor)) {
        throw new SbxError("guest.failed", `the VM lists "${folder}" without an end`, {
          hint: "sbx logs NAME shows the guest's console",
        });
      }
      yield page;
      more = page.truncated;
      cursor = page.next_cursor;
    }
  }

  /** Kind of the entry at a path; undefined when the path does not exist. */
  async kindOf(path: string): Promise<"folder" | "file" | undefined> {
    try {
      await this.#client.json<FileList>("GET", this.#url("list"), { query: { path, depth: 1 } });
      return "folder";
    } catch (error) {
      if (error instanceof SbxError && error.code === "file.invalid") return "file";
      if (error instanceof SbxError && error.code === "file.not_found") return undefined;
      throw error;
    }
  }

  /** Opens a file. */
  async read(path: string): Promise<OpenRemote> {
    const { body, headers } = await this.#client.send("GET", this.#url("content"), { query: { path } });
    const bytesOf = (name: string) => headers.has(name) ? Number(headers.get(name)) : undefined;
    return {
      body: named(body!, path),
      size: bytesOf("content-length"),
      allocated: bytesOf("sbx-allocated-bytes"),
      mode: modeOf(headers.get("sbx-mode")),
    };
  }

  /**
   * Writes a file from a stream, of any size.
   *
   * @param mode permission bits
   * @returns the number of `bytes` sent
   * @throws {SbxError} `file.conflict`: the VM has fewer or more bytes than were sent
   */
  async write(path: string, bytes: AsyncIterable<Uint8Array>, mode: number): Promise<number> {
    let sent = 0;
    const counted = async function* () {
      for await (const chunk of bytes) {
        sent += chunk.length;
        yield chunk;
      }
    };
    const { size, captured } = await this.#client.json<FileWritten>("POST", this.#url("content"), {
      query: { path, mode: mode.toString(8).padStart(4, "0") },
      body: ReadableStream.from(counted()),
    });
    if (captured !== undefined) {
      const secrets = count(captured, "secret");
      note(`sbx: ${path}: ${secrets} stored; the VM has refs in their place (sbx credentials list)`);
    } else if (size !== sent) throw incompleteError(path, size, sent);
    return sent;
  }

  /** Makes a symbolic link, in place of any existing entry. */
  async writeLink(path: string, target: string): Promise<void> {
    await this.#client.json("POST", this.#url("content"), { query: { path, type: "symlink" }, body: target });
  }

  /** Creates a folder and its parents. */
  async createFolder(path: string): Promise<void> {
    await this.#client.json("POST", this.#url("content"), { query: { path, type: "directory" } });
  }

  /** Path of the workspace on this machine. */
  async folder(): Promise<string> {
    return (await this.#client.json<VmInfo>("GET", `/vms/${this.#vm}/info`)).workspace;
  }

  #url(action: string): string {
    return `/vms/${this.#vm}/files/${action}`;
  }
}

function tooLargeError(path: string): SbxError {
  return new SbxError("repo.too_large", `"${path}" has more than ${ENTRIES_MAX} files and folders`, {
    hint: "copy the folders in it one by one, or pack them in the VM first: tar -cf FILE FOLDER",
  });
}

function modeOf(header: string | null): number | undefined {
  return header !== null && /^[0-7]{1,4}$/.test(header) ? parseInt(header, 8) & 0o777 : undefined;
}

/** True for a folder at the depth where the listing of `folder` ends, so that it needs one of its own. */
function isDeepest({ path, type }: FileEntry, folder: string): boolean {
  if (type !== "directory") return false;
  const below = folder === "" ? path : path.slice(folder.length + 1);
  return below.split("/").length === DEPTH_MAX;
}

/** Passes a file's stream on; the error of a lost connection names the file. */
async function* named(body: ReadableStream<Uint8Array>, path: string): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    throw new SbxError("service.unreachable", `the connection was lost while "${path}" was copied`, {
      cause,
      hint: "copy it again; sbx list starts the service again",
    });
  }
}

/** Joins path parts with single slashes. */
export function joinPath(...parts: string[]): string {
  return parts.filter((part) => part !== "").join("/").replace(/\/+/g, "/");
}

/** Error of a copy that has fewer or more bytes than its source. */
export function incompleteError(path: string, written: number, size: number): SbxError {
  return new SbxError("file.conflict", `"${path}" was copied with ${written} of ${size} bytes`, {
    hint: "copy it again; a file that changes meanwhile cannot be copied",
  });
}

/**
 * Room that a copy leaves on its disk, in `bytes` (docs/design/contracts/14-limits.md §14): VMs that cannot
 * write their record stop.
 */
const KEPT_BYTES = 128 * 1024 * 1024;

/**
 * Checks that a copy fits on the disk of a folder before it begins.
 *
 * @param needed `bytes` that the source takes on its disk, without holes
 * @throws {SbxError} `disk.full`
 */
export async function requireRoom(folder: string, path: string, needed: number): Promise<void> {
  const room = await statfs(folder).then(({ bavail, bsize }) => bavail * bsize - KEPT_BYTES, () => Infinity);
  if (needed <= room) return;
  throw new SbxError(
    "disk.full",
    `"${plain(path)}" has ${formatBytes(needed)}, and there is room for ${
      formatBytes(Math.max(0, room))
    } in ${folder}`,
    { hint: "free some space, or copy to another disk" },
  );
}

/** Reports in advance what happens to existing files. */
export function reportClash(kind: "folder" | "file" | undefined, target: string, isFolder: boolean): void {
  if (kind === "folder" && isFolder) {
    note(`sbx: "${target}" is there: files of the same names are replaced, others stay`);
  } else if (kind === "file" && !isFolder) note(`sbx: "${target}" is there and is replaced`);
}
