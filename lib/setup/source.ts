/** The files of a setup, each read once: the bytes that are shown go. */
import { dirname, isAbsolute, join, posix } from "node:path";
import { openBeneath, readNames } from "../../ffi/host/files.ts";
import { joinBytes } from "../base/bytes/mod.ts";
import { ifFound, SbxError } from "../base/error/mod.ts";
import { type FileEntry, Files } from "../base/files/mod.ts";
import type { AgentSetup } from "../config/profile/mod.ts";
import { looksSecret } from "../repo/mod.ts";
import { DEPTH_MAX, ENTRIES_MAX, FILE_MAX, FILES_MAX, TOTAL_MAX } from "./limit.ts";

/** A file as it was read. */
export interface SourceFile {
  /** below the home */
  path: string;
  kind: "text" | "program" | "settings";
  bytes: Uint8Array;
  isExecutable: boolean;
}

/** A file or folder that stays. */
export interface LeftOut {
  path: string;
  reason: string;
}

/** Folders that others make inside of texts: copies of other places. */
const OTHERS = new Set([".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"]);
/** Permission of everyone to write, and of the owner to execute. */
const WORLD_WRITABLE = 0o002, EXECUTABLE = 0o100;

const latin1 = new TextDecoder("latin1");

/**
 * Reads the files that an agent's setup names. No link is followed out of its folder.
 *
 * @param home of the person
 * @param moved places outside of it, by path below it
 * @throws {SbxError} `agent.setup_foreign`: another user owns a folder, or everyone may
 * write to it; `agent.setup_limit`
 */
export async function readSources(
  home: string,
  setup: AgentSetup,
  moved: ReadonlyMap<string, string> = new Map(),
): Promise<{ files: SourceFile[]; leftOut: LeftOut[] }> {
  const reader = new Reader(home, setup, moved);
  for (const [path, { from }] of Object.entries(setup.settings)) {
    if (from === undefined || moved.has(path)) await reader.take(path, "settings");
  }
  for (const path of setup.texts) await reader.take(path, "text");
  for (const path of setup.programs) await reader.take(path, "program");
  await reader.nameOthers();
  return reader;
}

/**
 * Places of the host that a person's variables name for folders and files of a setup.
 *
 * @param variable value of a variable
 * @returns absolute paths, by path below the home
 * @throws {SbxError} `agent.no_setup`: a variable has a relative path
 */
export function movedPlaces(
  { moved = {}, settings = {} }: Pick<AgentSetup, "moved"> & Partial<Pick<AgentSetup, "settings">>,
  variable: (name: string) => string | undefined,
): Map<string, string> {
  const places = new Map<string, string>();
  const named = Object.entries(settings).flatMap(([path, { from }]) => from ? [[path, [from]] as const] : []);
  for (const [path, all] of [...Object.entries(moved), ...named]) {
    const [first] = all.flatMap((to) => {
      const [name, ...below] = to.split("/");
      const folder = variable(name);
      return folder === undefined || folder === "" ? [] : [{ name, folder, below }];
    });
    if (!first) continue;
    const { name, folder, below } = first;
    if (!isAbsolute(folder)) {
      throw new SbxError("agent.no_setup", `${name} has a relative path, so there is no setup`, {
        hint: `set ${name} to an absolute path, or unset it`,
      });
    }
    places.set(path, join(folder, ...below));
  }
  return places;
}

/** Tests whether a path is another one or below it. */
function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

class Reader {
  readonly files: SourceFile[] = [];
  readonly leftOut: LeftOut[] = [];
  readonly #home: string;
  readonly #setup: AgentSetup;
  readonly #moved: ReadonlyMap<string, string>;
  readonly #roots = new Map<string, Files | undefined>();
  readonly #taken = new Set<string>();
  #total = 0;
  #entries = 0;

  constructor(home: string, setup: AgentSetup, moved: ReadonlyMap<string, string>) {
    this.#home = home;
    this.#setup = setup;
    this.#moved = moved;
  }

  /** Reads a file, or the files of a folder. */
  async take(path: string, kind: SourceFile["kind"]): Promise<void> {
    const folder = this.#folderOf(path);
    const root = await this.#root(folder);
    const info = root && await ifFound(Deno.lstat(this.#placeOf(path)).catch(notAFolder));
    if (!info) return;
    // Directly in the home a link could lead to anything of the person's.
    if (info.isSymlink && folder === "") return this.#leave(path, "a link");
    if (info.isDirectory && kind === "settings") return this.#leave(path, "a folder");
    if (info.isDirectory) await this.#takeFolder(path, kind, 1);
    else if (info.isFile || info.isSymlink) await this.#takeFile(path, kind);
    else this.#leave(path, "not a regular file");
  }

  /** Names what else is in the agent's folders. */
  async nameOthers(): Promise<void> {
    const { folders, never } = this.#setup;
    const known = this.#parts;
    const elsewhere = new Set(this.#moved.values());
    for (const folder of folders) {
      for (const { path } of await this.#list(folder)) {
        if (known.some((each) => isWithin(each, path) || isWithin(path, each))) continue;
        if (this.leftOut.some((each) => each.path === path) || elsewhere.has(this.#placeOf(path))) continue;
        this.#leave(path, this.#neverReason(path) ?? "no part of a setup");
      }
    }
    for (const [path, reason] of Object.entries(never)) {
      if (this.leftOut.some((each) => isWithin(path, each.path))) continue;
      if (await ifFound(Deno.lstat(this.#placeOf(path)).catch(notAFolder))) this.#leave(path, reason);
    }
  }

  /** The agent's folder that a path is in; "" for the home itself. */
  #folderOf(path: string): string {
    return this.#setup.folders.filter((folder) => isWithin(path, folder))
      .toSorted((a, b) => b.length - a.length)[0] ?? "";
  }

  /** Where a path is on the host. */
  #placeOf(path: string): string {
    const from = this.#moved.has(path) ? path : this.#folderOf(path);
    return join(this.#moved.get(from) ?? join(this.#home, from), posix.relative(from, path));
  }

  /**
   * @param file directly in the home, unless a variable says where
   * @returns undefined: there is no such folder
   */
  async #root(folder: string, file?: string): Promise<Files | undefined> {
    const dir = folder === "" && file !== undefined ? dirname(this.#placeOf(file)) : this.#placeOf(folder);
    if (this.#roots.has(dir)) return this.#roots.get(dir);
    const info = await ifFound(Deno.stat(dir).catch(notAFolder));
    if (info?.isDirectory) {
      const isForeign = info.uid !== Deno.uid();
      if (isForeign || ((info.mode ?? 0) & WORLD_WRITABLE) !== 0) {
        throw new SbxError(
          "agent.setup_foreign",
          isForeign ? `${dir} belongs to another user` : `everyone may write to ${dir}`,
          { hint: isForeign ? "run sbx as that user, with its HOME" : `chmod o-w ${dir}` },
        );
      }
    }
    const root = info?.isDirectory ? new Files(dir, { openBeneath, readNames }) : undefined;
    this.#roots.set(dir, root);
    return root;
  }

  async #list(path: string): Promise<FileEntry[]> {
    const folder = this.#folderOf(path);
    const root = await this.#root(folder);
    const entries: FileEntry[] = [];
    let cursor: string | undefined;
    do {
      const page = await root?.list(posix.relative(folder, path), 1, cursor);
      for (const name of page?.left_out ?? []) {
        this.#leave(posix.join(folder, name), "its name is not UTF-8");
      }
      for (const entry of page?.entries ?? []) {
        entries.push({ ...entry, path: posix.join(folder, entry.path) });
      }
      cursor = page?.next_cursor;
      if (this.#entries + entries.length > ENTRIES_MAX) {
        throw tooMuch(path, `${ENTRIES_MAX} files and folders`);
      }
    } while (cursor !== undefined);
    this.#entries += entries.length;
    return entries;
  }

  async #takeFolder(folder: string, kind: SourceFile["kind"], depth: number): Promise<void> {
    for (const { path, type } of await this.#list(folder)) {
      const reason = this.#neverReason(path);
      if (reason !== undefined) this.#leave(path, reason);
      else if (type === "file" || type === "symlink") await this.#takeFile(path, kind);
      else if (type === "other") this.#leave(path, "not a regular file");
      else if (OTHERS.has(posix.basename(path))) this.#leave(path, "not written by you");
      else if (depth >= DEPTH_MAX) this.#leave(path, `below ${DEPTH_MAX} folders`);
      else await this.#takeFolder(path, kind, depth + 1);
    }
  }

  async #takeFile(path: string, kind: SourceFile["kind"]): Promise<void> {
    if (this.#taken.has(path)) return;
    this.#taken.add(path);
    const reason = this.#neverReason(path);
    if (reason !== undefined) return this.#leave(path, reason);
    const folder = this.#folderOf(path);
    const root = (await this.#root(folder, path))!;
    let opened: Awaited<ReturnType<Files["open"]>>;
    try {
      opened = await root.open(
        folder === "" ? posix.basename(this.#placeOf(path)) : posix.relative(folder, path),
      );
    } catch (error) {
      return this.#leave(path, refusalOf(error));
    }
    using file = opened.file;
    const { uid, ino, dev } = await file.stat();
    // A link within the folder may lead to what never goes, and a path may have
    // become one since it was looked at.
    const place = this.#placeOf(path);
    const real = await ifFound(Deno.realPath(place));
    const here = real === undefined ? undefined : await ifFound(Deno.lstat(real));
    if (here?.ino !== ino || here.dev !== dev) return this.#leave(path, "changed while it was read");
    const base = await Deno.realPath(folder === "" ? dirname(place) : this.#placeOf(folder));
    const within = posix.relative(base, real!);
    // A file that a variable names may have another name.
    const target = folder === "" && within === posix.basename(place)
      ? path
      : posix.join(folder === "" ? posix.dirname(path) : folder, within);
    if (!this.#isPart(target)) return this.#leave(path, `a link to ${target}, which is not part of a setup`);
    const never = this.#neverReason(target);
    if (never !== undefined) return this.#leave(path, `a link to ${target}: ${never}`);
    if (uid !== Deno.uid()) return this.#leave(path, "belongs to another user");
    const bytes = await readUpTo(file, FILE_MAX + 1);
    if (bytes.length > FILE_MAX) return this.#leave(path, `over ${FILE_MAX} bytes`);
    if (await looksSecret(path, (count) => Promise.resolve(latin1.decode(bytes.subarray(0, count))))) {
      return this.#leave(path, "looks like a secret");
    }
    this.#total += bytes.length;
    if (this.#total > TOTAL_MAX) throw tooMuch(path, `${TOTAL_MAX} bytes`);
    if (this.files.length >= FILES_MAX) throw tooMuch(path, `${FILES_MAX} files`);
    this.files.push({ path, kind, bytes, isExecutable: (opened.mode & EXECUTABLE) !== 0 });
  }

  /** Paths of the files and folders that go. */
  get #parts(): string[] {
    const { texts, programs, settings } = this.#setup;
    return [...texts, ...programs, ...Object.keys(settings)];
  }

  #isPart(path: string): boolean {
    return this.#parts.some((each) => isWithin(path, each));
  }

  /** A file that is named itself goes from a folder that does not. */
  #neverReason(path: string): string | undefined {
    if (this.#parts.includes(path)) return undefined;
    return Object.entries(this.#setup.never).find(([never]) => isWithin(path, never))?.[1];
  }

  #leave(path: string, reason: string): void {
    this.leftOut.push({ path, reason });
  }
}

/** Why a file cannot be opened, in words. */
function refusalOf(error: unknown): string {
  if (error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable) {
    return "cannot be read";
  }
  if (!(error instanceof SbxError)) throw error;
  if (error.code === "path.outside_workspace") return "a link that leads out of its folder";
  if (error.code === "file.not_found") return "a link to nothing";
  return error.message.endsWith("is a folder") ? "a link to a folder" : "not a regular file";
}

/** A part of the path is a file: nothing is there. */
function notAFolder(error: unknown): undefined {
  if (error instanceof Deno.errors.NotADirectory) return undefined;
  throw error;
}

function tooMuch(path: string, limit: string): SbxError {
  return new SbxError("agent.setup_limit", `a setup may have ${limit}: ~/${path} is over it`, {
    hint: "move files that the agent does not need out of its folder",
  });
}

/** Reads a file until its end or a limit: it may grow meanwhile. */
async function readUpTo(file: Deno.FsFile, limit: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const buffer = new Uint8Array(64 * 1024);
  while (size < limit) {
    const read = await file.read(buffer.subarray(0, Math.min(buffer.length, limit - size)));
    if (read === null) break;
    parts.push(buffer.slice(0, read));
    size += read;
  }
  return joinBytes(parts);
}
