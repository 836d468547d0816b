import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { blake3File } from "../base/hash/mod.ts";
import type { ProgressSink } from "../base/progress/mod.ts";
import { open, shown } from "./download.ts";
import { fileError } from "./file_error.ts";
import { installedName, publishedNames } from "./name.ts";
import type { ManifestFile } from "./schema.ts";
import { fromFileUrl } from "./url.ts";

/** One file that is to be installed. */
export interface Blob {
  arch: string;
  name: string;
  file: ManifestFile;
}

/** Is the file installed, and is it what the manifest says? */
export async function isInstalled(dir: string, { name, file }: Blob): Promise<boolean> {
  const path = join(dir, installedName(name, file.hash));
  const info = await Deno.stat(path).catch(() => null);
  return info?.isFile === true && info.size === file.size && (await blake3File(path)).hash === file.hash;
}

/**
 * Fetches one file beside its manifest into `dir`, verified by size and BLAKE3 before it has its name. What came
 * before an interruption is kept as `.part` and continued.
 *
 * @throws {SbxError} `assets.not_found`, `assets.mismatch`, `assets.download_failed`, `disk.full`
 */
export async function installBlob(
  dir: string,
  manifest: URL,
  blob: Blob,
  progress: ProgressSink,
): Promise<void> {
  const target = join(dir, installedName(blob.name, blob.file.hash));
  const part = `${target}.part`;
  try {
    const had = await Deno.stat(part).then(({ size }) => size, () => 0);
    let seen = await fetchInto(part, manifest, blob, had, progress);
    // A part that another server, or a fault, left behind may be bad; what is fetched anew is judged for good.
    if (seen && had > 0) seen = await fetchInto(part, manifest, blob, 0, progress);
    if (seen) {
      await Deno.remove(part);
      throw mismatch(blob, seen);
    }
    await Deno.rename(part, target);
  } catch (error) {
    throw fileError(error, `installing ${blob.name}`);
  }
}

/** Fills `part`; null when it then is the file, else its wrong size or hash. */
async function fetchInto(
  part: string,
  manifest: URL,
  blob: Blob,
  had: number,
  progress: ProgressSink,
): Promise<string | null> {
  const { size, hash } = blob.file;
  const usable = had <= size ? had : 0;
  if (usable < size || size === 0) {
    const copied = manifest.protocol === "file:" && usable === 0 && await copy(part, manifest, blob);
    if (!copied) await stream(part, manifest, blob, usable, progress);
  }
  const info = await Deno.stat(part);
  if (info.size !== size) return `${info.size} bytes`;
  const actual = (await blake3File(part)).hash;
  return actual === hash ? null : actual;
}

/** The kernel copies a local file, and shares its blocks where the file system can: 300 MB in no time and space. */
async function copy(part: string, manifest: URL, { arch, name }: Blob): Promise<boolean> {
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

async function stream(
  part: string,
  manifest: URL,
  blob: Blob,
  had: number,
  progress: ProgressSink,
): Promise<void> {
  const { arch, name, file } = blob;
  const places = publishedNames(arch, name).map((place) => new URL(place, manifest));
  for (const url of places) {
    const source = await open(url, had);
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
    // More than the manifest promises is not this file; one byte too many makes the part say so.
    if (size > file.size) await out.truncate(file.size + 1);
    await out.sync();
    if (size < file.size) {
      throw new SbxError(
        "assets.download_failed",
        `${shown(url)} ended after ${size} of ${file.size} bytes`,
        {
          hint: "try again: what has already come is kept",
        },
      );
    }
    return;
  }
  throw new SbxError("assets.not_found", `${name} of ${arch} is at none of ${places.map(shown).join(", ")}`, {
    hint: "the files of a manifest stand beside it",
  });
}

function mismatch({ name, file }: Blob, actual: string): SbxError {
  return new SbxError(
    "assets.mismatch",
    `${name} is not what its manifest says: expected ${file.hash} of ${file.size} bytes, got ${actual}`,
    { hint: "the publisher must generate the manifest again; the installed assets are as they were" },
  );
}
