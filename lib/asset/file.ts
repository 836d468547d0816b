import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { blake3File } from "../base/hash/mod.ts";
import type { ProgressSink } from "../base/progress/mod.ts";
import { displayUrl, openSource } from "./download.ts";
import { fileError } from "./file_error.ts";
import { installedName, publishedNames } from "./name.ts";
import type { ManifestFile } from "./schema.ts";
import { fromFileUrl } from "./url.ts";

/** One file of an asset release. */
export interface ReleaseFile {
  arch: string;
  name: string;
  file: ManifestFile;
}

/** Tests whether a file is installed with the size and hash of the manifest. */
export async function isInstalled(dir: string, { name, file }: ReleaseFile): Promise<boolean> {
  const path = join(dir, installedName(name, file.hash));
  const info = await Deno.stat(path).catch(() => null);
  return info?.isFile === true && info.size === file.size && (await blake3File(path)).hash === file.hash;
}

/**
 * Fetches one file from beside its manifest into `dir`, and renames it to its final name once size and BLAKE3
 * match. An interrupted download stays as `.part` and is continued.
 *
 * @throws {SbxError} `assets.not_found`, `assets.mismatch`, `assets.download_failed`, `disk.full`
 */
export async function installFile(
  dir: string,
  manifest: URL,
  item: ReleaseFile,
  progress: ProgressSink,
): Promise<void> {
  const target = join(dir, installedName(item.name, item.file.hash));
  const part = `${target}.part`;
  try {
    const partSize = await Deno.stat(part).then(({ size }) => size, () => 0);
    let actual = await fetchInto(part, manifest, item, partSize, progress);
    // An old part, from another server or a fault, may be bad; a complete new download decides.
    if (actual && partSize > 0) actual = await fetchInto(part, manifest, item, 0, progress);
    if (actual) {
      await Deno.remove(part);
      throw mismatchError(item, actual);
    }
    await Deno.rename(part, target);
  } catch (error) {
    throw fileError(error, `installing ${item.name}`);
  }
}

/**
 * Completes `part` from its first `start` bytes; returns null when it matches, else its wrong size or hash.
 */
async function fetchInto(
  part: string,
  manifest: URL,
  item: ReleaseFile,
  start: number,
  progress: ProgressSink,
): Promise<string | null> {
  const { size, hash } = item.file;
  const usable = start <= size ? start : 0;
  if (usable < size || size === 0) {
    const isCopied = manifest.protocol === "file:" && usable === 0 && await copyLocal(part, manifest, item);
    if (!isCopied) await download(part, manifest, item, usable, progress);
  }
  const info = await Deno.stat(part);
  if (info.size !== size) return `${info.size} bytes`;
  const actual = (await blake3File(part)).hash;
  return actual === hash ? null : actual;
}

/**
 * Copies a local file in the kernel, which shares its blocks where the file system can: 300 MB at no cost.
 */
async function copyLocal(part: string, manifest: URL, { arch, name }: ReleaseFile): Promise<boolean> {
  for (const place of publishedNames(arch, name)) {
    try {
      await Deno.copyFile(fromFileUrl(new URL(place, manifest)), part);
      return true;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return false;
}

async function download(
  part: string,
  manifest: URL,
  { arch, name, file }: ReleaseFile,
  start: number,
  progress: ProgressSink,
): Promise<void> {
  const places = publishedNames(arch, name).map((place) => new URL(place, manifest));
  for (const url of places) {
    const source = await openSource(url, start);
    if (!source) continue;
    using out = await Deno.open(part, { write: true, create: true, mode: 0o600 });
    await out.truncate(source.start);
    await out.seek(source.start, Deno.SeekMode.Start);
    progress.advance(source.start);
    let size = source.start;
    for await (const chunk of source.chunks) {
      size += chunk.length;
      if (size > file.size) break;
      for (let at = 0; at < chunk.length;) at += await out.write(chunk.subarray(at));
      progress.advance(chunk.length);
    }
    // One byte too many in the part marks a file longer than the manifest says.
    if (size > file.size) await out.truncate(file.size + 1);
    await out.sync();
    if (size < file.size) {
      throw new SbxError(
        "assets.download_failed",
        `${displayUrl(url)} ended after ${size} of ${file.size} bytes`,
        {
          hint: "try again: the download continues where it stopped",
        },
      );
    }
    return;
  }
  throw new SbxError(
    "assets.not_found",
    `${name} for ${arch} not found; tried ${places.map(displayUrl).join(", ")}`,
    { hint: "publish the files of a manifest beside it" },
  );
}

function mismatchError({ name, file }: ReleaseFile, actual: string): SbxError {
  return new SbxError(
    "assets.mismatch",
    `${name} does not match its manifest: expected ${file.hash} of ${file.size} bytes, got ${actual}`,
    { hint: "the publisher must generate the manifest again; the installed assets are unchanged" },
  );
}
