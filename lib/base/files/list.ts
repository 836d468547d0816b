/** Listings of a tree, in pages: the memory for a folder does not grow with its size. */
import { decodeUtf8, escapeBytes } from "../text/mod.ts";

/** A file or folder that is held open: `path` leads to it until disposal, whatever its name is then. */
export interface OpenPath extends Disposable {
  readonly path: string;
}

/**
 * Calls of the system that a tree of files needs (ffi/host, or ffi/libc in the guest, whose
 * programs load no more than they need).
 */
export interface FileCalls {
  /**
   * Opens `path` below `root`, and follows links that stay below it.
   * @throws {OpenError} `EXDEV`: it leaves `root`
   */
  openBeneath(root: string, path: string, options: { directory: boolean }): OpenPath;
  /** Yields the names in a folder as bytes, in no order. */
  readNames(path: string): AsyncGenerator<Uint8Array<ArrayBuffer>>;
}

/** Most entries of a page (docs/design/contracts/14-limits.md §14). */
const ENTRIES_MAX = 10_000;
/** Most names of a page that are not UTF-8; all are counted. */
const LEFT_OUT_MAX = 1000;
/** Names collected beyond the wanted ones before they are sorted and dropped. */
const SLACK = 10_000;

/** A file or folder of a listing. */
export interface FileEntry {
  /** relative to the tree */
  path: string;
  type: "file" | "directory" | "symlink" | "other";
  /** `bytes` */
  size: number;
  /** permission bits, octal */
  mode: string;
  modified_unix_ms: number;
  /** of a symlink: where it leads, as it is written */
  target?: string;
}

/** One page of a listing. */
export interface FileList {
  entries: FileEntry[];
  /** `next_cursor` has the next page */
  truncated: boolean;
  next_cursor?: string;
  /** paths whose names are not UTF-8, those bytes as `\\xe9`; at most {@linkcode LEFT_OUT_MAX} */
  left_out: string[];
  /** all of them */
  left_out_count: number;
}

/** Reader of one page. */
export class FileLister {
  readonly #open: (relative: string) => OpenPath;
  readonly #readNames: FileCalls["readNames"];
  readonly #limit: number;
  readonly #page: FileList = { entries: [], truncated: false, left_out: [], left_out_count: 0 };
  #last?: string;

  /** @param open opens a folder of the tree */
  constructor(open: (relative: string) => OpenPath, readNames: FileCalls["readNames"], limit = ENTRIES_MAX) {
    this.#open = open;
    this.#readNames = readNames;
    this.#limit = limit;
  }

  /** @param cursor path of the last entry of the page before */
  async list(relative: string, depth: number, cursor?: string): Promise<FileList> {
    const below = relative === "" ? cursor : cursor?.slice(relative.length + 1);
    if (await this.#collect(relative, below?.split("/") ?? [], depth)) return this.#page;
    return { ...this.#page, truncated: true, next_cursor: this.#last };
  }

  /**
   * Adds the entries of a folder in order, each before its own content.
   *
   * @param first name below which, with `rest`, the last entry of the page before is
   * @returns false when the page ends before the folder
   */
  async #collect(relative: string, [first, ...rest]: string[], depth: number): Promise<boolean> {
    using folder = this.#open(relative);
    const { names, complete, leftOut } = await this.#names(folder.path, first);
    // With the first entry of the folder, since a page that ends before it comes here again.
    const leaveOut = () => {
      const room = LEFT_OUT_MAX - this.#page.left_out.length;
      this.#page.left_out.push(...leftOut.names.splice(0).slice(0, room).map((name) => join(relative, name)));
      this.#page.left_out_count += leftOut.count;
      leftOut.count = 0;
    };
    for (const name of names) {
      const info = await Deno.lstat(`${folder.path}/${name}`).catch(() => null);
      if (!info) continue; // Removed meanwhile.
      const path = join(relative, name);
      const isPassed = name === first;
      if (!isPassed) {
        if (this.#page.entries.length >= this.#limit) return false;
        leaveOut();
        this.#page.entries.push(await entryOf(path, info, `${folder.path}/${name}`));
      }
      this.#last = path;
      if (info.isDirectory && depth > 1 && !await this.#collect(path, isPassed ? rest : [], depth - 1)) {
        return false;
      }
    }
    if (complete) leaveOut();
    return complete;
  }

  /**
   * The first names of a folder from `first` on, sorted; only as many as the page may need are kept.
   * `leftOut` has the names that are not UTF-8, escaped, unless an earlier page had them.
   */
  async #names(
    path: string,
    first: string | undefined,
  ): Promise<{ names: string[]; complete: boolean; leftOut: { names: string[]; count: number } }> {
    const wanted = this.#limit - this.#page.entries.length + 2;
    let names: string[] = [];
    let complete = true;
    const leftOut = { names: [] as string[], count: 0 };
    const cut = () => {
      names.sort();
      if (names.length <= wanted) return;
      names = names.slice(0, wanted);
      complete = false;
    };
    for await (const bytes of this.#readNames(path)) {
      const name = decodeUtf8(bytes);
      if (name === undefined) {
        if (first !== undefined) continue;
        leftOut.count++;
        if (leftOut.names.length < LEFT_OUT_MAX) leftOut.names.push(escapeBytes(bytes));
      } else if (first === undefined || name >= first) {
        names.push(name);
        if (names.length >= wanted + SLACK) cut();
      }
    }
    cut();
    return { names, complete, leftOut };
  }
}

/** @param open path of the entry through its open folder */
async function entryOf(path: string, info: Deno.FileInfo, open: string): Promise<FileEntry> {
  const target = info.isSymlink ? await Deno.readLink(open).catch(() => undefined) : undefined;
  return {
    path,
    type: info.isFile ? "file" : info.isDirectory ? "directory" : info.isSymlink ? "symlink" : "other",
    size: info.size,
    mode: ((info.mode ?? 0) & 0o7777).toString(8).padStart(4, "0"),
    modified_unix_ms: info.mtime?.getTime() ?? 0,
    ...target !== undefined && { target },
  };
}

function join(relative: string, name: string): string {
  return relative === "" ? name : `${relative}/${name}`;
}
