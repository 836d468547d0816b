/** The context of a build: the files that its VM gets, their hash, and an archive of them. */
import { createHash, type Hash } from "node:crypto";
import { basename, isAbsolute, join, posix, relative, resolve } from "node:path";
import { openBeneath, OpenError } from "../../../ffi/host/files.ts";
import type { PathHandle } from "../../../ffi/host/handle.ts";
import { readPieces } from "../../base/bytes/mod.ts";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { BLOCK, tarHeader } from "../../base/tar/mod.ts";
import type { Arch } from "../../base/arch/mod.ts";
import { looksSecret } from "../../repo/mod.ts";
import { Ignore } from "./ignore.ts";

/** Most files of a context, and most `bytes` of a Dockerfile and of an ignore file. */
const FILES_MAX = 1_000_000, TEXT_MAX = 4 * 1024 ** 2;
/** Version of what a build does: another one builds every image again. */
const FORMAT = 1;
/** Size of one read of a file, in `bytes`. */
const CHUNK = 1024 * 1024;

/** One file, folder or link of a context. */
export interface ContextFile {
  /** relative to the context, with `/` */
  path: string;
  type: "file" | "directory" | "symlink";
  /** permission bits */
  mode: number;
  /** `bytes` of a file */
  size: number;
  /** `s` since 1970 */
  mtime: number;
  /** of a symlink: where it leads */
  target?: string;
  /** of a file: SHA-256 of its content, in hexadecimal digits */
  hash?: string;
}

/** Files of a folder. */
export interface Files {
  /** absolute */
  dir: string;
  /** sorted by path */
  files: ContextFile[];
}

/** The files that a build can use. */
export interface Context extends Files {
  /** text of the Dockerfile, which may be outside of the context */
  dockerfile: string;
  /** the Dockerfile's path as people know it: relative to the context, or absolute */
  name: string;
  /** paths that look like secrets and stay on the host */
  secretsLeftOut: string[];
  features?: Features;
}

/** Features of a `devcontainer.json`, which are installed on top of the Dockerfile's image. */
export interface Features {
  /** name to value or options, as in the file */
  features: Record<string, unknown>;
  /** names in the order of their installation, where the file has one */
  order?: string[];
  /** users that the features are installed for, where the file names them */
  containerUser?: string;
  remoteUser?: string;
  /** place of `devcontainer.json` in its folder, which paths of features are relative to */
  config: string;
  /** the folder `.devcontainer`, with features of its own and the versions that it locks */
  files: Files;
}

/**
 * Reads a context, without the files that `.dockerignore` leaves out, and without
 * the ones that look like secrets.
 *
 * @param options.file the Dockerfile, relative to the folder of the call; default `Dockerfile` of the context
 * @param options.withSecrets files that look like secrets are part of it
 * @throws {SbxError} `build.no_dockerfile`, `build.context_invalid`, `build.ignore_invalid`
 */
export async function readContext(
  dir: string,
  { file, withSecrets = false }: { file?: string; withSecrets?: boolean } = {},
): Promise<Context> {
  const root = resolve(dir);
  const info = await ifFound(Deno.stat(root));
  if (!info?.isDirectory) {
    throw new SbxError("build.context_invalid", `${dir} is not a folder`, {
      hint: "give the folder with the Dockerfile and the files that it copies",
    });
  }
  const path = resolve(file ?? join(root, "Dockerfile"));
  const isThere = (await ifFound(Deno.stat(path)))?.isFile;
  const dockerfile = isThere ? await readText(root, path) : undefined;
  if (dockerfile === undefined) {
    throw new SbxError("build.no_dockerfile", `there is no Dockerfile ${path}`, {
      hint: "name it: --file FILE",
    });
  }
  const name = isBelow(root, path) ? relative(root, path) : path;
  const ignore = await readIgnore(root, path);
  const walker = new Walker(root, ignore, withSecrets);
  await walker.walk("");
  return { dir: root, dockerfile, name, files: walker.files, secretsLeftOut: walker.secretsLeftOut };
}

/**
 * The files of a folder, without the ones that look like secrets.
 *
 * @returns no files where the folder does not exist
 */
export async function readFiles(dir: string): Promise<Files & Pick<Context, "secretsLeftOut">> {
  const walker = new Walker(dir, new Ignore(""), false);
  if ((await ifFound(Deno.lstat(dir)))?.isDirectory) await walker.walk("");
  return { dir, files: walker.files, secretsLeftOut: walker.secretsLeftOut };
}

/** True for a path in a folder, by its text. */
export function isBelow(dir: string, path: string): boolean {
  const from = relative(dir, path);
  return from !== ".." && !from.startsWith("../") && !isAbsolute(from);
}

/**
 * Reads a Dockerfile or an ignore file.
 *
 * @returns undefined: there is none
 * @throws {SbxError} `build.context_invalid`
 */
async function readText(root: string, path: string): Promise<string | undefined> {
  const real = await ifFound(Deno.realPath(path));
  if (real === undefined) return undefined;
  // A link of the folder's author may lead to any file of the person, and to a device without an end.
  const isInside = isBelow(root, path);
  const realRoot = await Deno.realPath(root);
  if (isInside && !isBelow(realRoot, real)) {
    throw new SbxError("build.context_invalid", `${path} is a link that leads out of the folder`, {
      hint: "name the Dockerfile itself, if it is the right one: --file FILE",
    });
  }
  using file = isInside ? await opened(realRoot, relative(realRoot, real)) : undefined;
  const { isFile, size } = await Deno.stat(file?.path ?? path);
  if (!isFile || size > TEXT_MAX) {
    throw new SbxError("build.context_invalid", `${path} is not a file of at most ${TEXT_MAX} bytes`, {
      hint: "it is a short text: check that this is the file that you mean",
    });
  }
  return await Deno.readTextFile(file?.path ?? path);
}

/** As Docker: the Dockerfile's own file goes before the context's. */
async function readIgnore(root: string, dockerfile: string): Promise<Ignore> {
  for (const path of [`${dockerfile}.dockerignore`, join(root, ".dockerignore")]) {
    const text = await readText(root, path);
    if (text !== undefined) return new Ignore(text, basename(path));
  }
  return new Ignore("");
}

class Walker {
  readonly files: ContextFile[] = [];
  readonly secretsLeftOut: string[] = [];

  constructor(readonly root: string, readonly ignore: Ignore, readonly withSecrets: boolean) {}

  /** @param seen the folder, as it was found */
  async walk(folder: string, seen?: Deno.FileInfo): Promise<void> {
    using dir = await opened(this.root, folder, seen);
    const names = await Array.fromAsync(Deno.readDir(dir.path), ({ name }) => name);
    for (const name of names.sort()) {
      const path = posix.join(folder, name);
      if (name.includes("\ufffd")) throw refused(path, "its name is not UTF-8");
      const place = `${dir.path}/${name}`;
      const info = await ifFound(Deno.lstat(place));
      const isIgnored = this.ignore.ignores(path);
      if (!info || isIgnored && !(info.isDirectory && this.ignore.hasExceptions)) continue;
      if (this.files.length >= FILES_MAX) {
        throw new SbxError("build.context_invalid", `${this.root} has more than ${FILES_MAX} files`, {
          hint: "list the files that the build does not need in .dockerignore",
        });
      }
      await this.#add(path, place, info, isIgnored);
    }
  }

  async #add(path: string, place: string, info: Deno.FileInfo, isIgnored: boolean): Promise<void> {
    const entry = {
      path,
      mode: (info.mode ?? 0o644) & 0o7777,
      size: 0,
      mtime: Math.floor((info.mtime?.getTime() ?? 0) / 1000),
    };
    if (info.isDirectory) {
      const at = this.files.push({ ...entry, type: "directory" });
      await this.walk(path, info);
      // A folder that is ignored is there for the files that an exception takes, or not at all.
      if (isIgnored && this.files.length === at) this.files.pop();
    } else if (info.isSymlink) {
      this.files.push({ ...entry, type: "symlink", mode: 0o777, target: await Deno.readLink(place) });
    } else if (info.isFile) {
      using file = await opened(this.root, path, info);
      if (!this.withSecrets && await looksSecret(path, (bytes) => beginOf(file.path, bytes))) {
        this.secretsLeftOut.push(path);
        return;
      }
      const hash = createHash("sha256");
      let size = 0;
      for await (const piece of readPieces(file.path, CHUNK)) {
        hash.update(piece);
        size += piece.length;
      }
      this.files.push({ ...entry, type: "file", size, hash: hash.digest("hex") });
    }
    // Pipes, sockets and devices are no content: Docker leaves out sockets, and
    // a pipe would wait for a writer.
  }
}

/**
 * Opens a file or folder of a context. A VM may write to the folder at the same time: what became a link
 * meanwhile could lead to any file of the person, or to one that looks like a secret.
 *
 * @param seen the file or folder, as it was found
 * @throws {SbxError} `build.context_changed`
 */
async function opened(root: string, path: string, seen?: Deno.FileInfo): Promise<PathHandle> {
  let handle: PathHandle;
  try {
    handle = openBeneath(root, path || ".");
  } catch (error) {
    if (error instanceof OpenError) throw changed(path, error);
    throw error;
  }
  const { dev, ino } = await Deno.stat(handle.path);
  if (!seen || seen.dev === dev && seen.ino === ino) return handle;
  handle[Symbol.dispose]();
  throw changed(path);
}

/** The first bytes of a file, as text. */
async function beginOf(path: string, bytes: number): Promise<string> {
  for await (const piece of readPieces(path, CHUNK)) {
    return new TextDecoder().decode(piece.subarray(0, bytes));
  }
  return "";
}

/** The parts of a build that decide on its result, beside its context. */
export interface BuildInputs {
  arch: Arch;
  target?: string;
  /** values by name */
  args: Record<string, string>;
  /** refs by id */
  secrets: Record<string, string>;
}

/** Key of a build, 32 hexadecimal digits: the same inputs have the same. Times of files do not count. */
export function buildKey(
  { dockerfile, files, features }: Context,
  { arch, target, args, secrets }: BuildInputs,
): string {
  const hash = createHash("sha256");
  const sorted = (values: Record<string, string>) =>
    Object.entries(values).sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
  put(hash, ["sbx.build", FORMAT, arch, target ?? null, dockerfile, sorted(args), sorted(secrets)]);
  putFiles(hash, files);
  if (features) {
    const { files: own, ...choices } = features;
    put(hash, ["features", choices]);
    putFiles(hash, own.files);
  }
  return hash.digest("hex").slice(0, 32);
}

function putFiles(hash: Hash, files: ContextFile[]): void {
  for (const { path, type, mode, target, hash: content } of files) {
    put(hash, [path, type, mode, target ?? content ?? null]);
  }
}

function put(hash: Hash, value: unknown): void {
  hash.update(JSON.stringify(value)).update("\n");
}

/** `bytes` of all files. */
export function contextBytes({ files }: Pick<Files, "files">): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

/**
 * The context as a tar archive (POSIX pax), owned by root.
 *
 * @throws {SbxError} `build.context_changed`: a file is not as it was when it was hashed
 */
export async function* archiveOf({ dir, files }: Files): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    yield* header(file);
    if (file.type !== "file") continue;
    const hash = createHash("sha256");
    let size = 0;
    using open = await opened(dir, file.path);
    // A pipe in its place would wait for a writer.
    if (!(await Deno.stat(open.path)).isFile) throw changed(file.path);
    for await (const piece of readPieces(open.path, CHUNK)) {
      size += piece.length;
      if (size > file.size) throw changed(file.path);
      hash.update(piece);
      yield piece;
    }
    if (size !== file.size || hash.digest("hex") !== file.hash) throw changed(file.path);
    yield new Uint8Array(-size & (BLOCK - 1));
  }
  yield new Uint8Array(2 * BLOCK);
}

/** Most digits of a number in a header, and of a size, as octal digits. */
const SIZE_MAX = 0o77777777777;

function* header(file: ContextFile): Generator<Uint8Array> {
  const { path, type, size, target = "" } = file;
  const name = type === "directory" ? `${path}/` : path;
  const fields = [
    ...isShort(name) ? [] : [["path", name]],
    ...isShort(target) ? [] : [["linkpath", target]],
    ...size <= SIZE_MAX ? [] : [["size", `${size}`]],
  ];
  if (fields.length > 0) {
    const text = new TextEncoder().encode(fields.map(([key, value]) => record(key, value)).join(""));
    yield tarHeader({ name: "pax", flag: "x", mode: 0o644, size: text.length, mtime: file.mtime });
    yield text;
    yield new Uint8Array(-text.length & (BLOCK - 1));
  }
  const flag = { file: "0", directory: "5", symlink: "2" }[type];
  yield tarHeader({
    name: isShort(name) ? name : "long",
    link: isShort(target) ? target : "",
    flag,
    mode: file.mode,
    size: size <= SIZE_MAX ? size : 0,
    mtime: file.mtime,
  });
}

/** Fits the fields of 100 bytes, as ASCII. */
function isShort(text: string): boolean {
  return text.length <= 100 && /^[\x20-\x7e]*$/.test(text);
}

/** A record of pax, whose length counts its own digits. */
function record(key: string, value: string): string {
  const rest = new TextEncoder().encode(` ${key}=${value}\n`).length;
  const digits = `${rest + `${rest}`.length}`.length;
  return `${rest + digits} ${key}=${value}\n`;
}

function refused(path: string, reason: string): SbxError {
  return new SbxError("build.context_invalid", `${path} cannot be part of a build: ${reason}`, {
    hint: "rename it, or leave it out: .dockerignore",
  });
}

function changed(path: string, cause?: unknown): SbxError {
  return new SbxError("build.context_changed", `${path} changed while the build began`, {
    cause,
    hint: "build again",
  });
}
