import { join } from "node:path";
import { blake3File } from "../../base/hash/mod.ts";
import type { ProgressSink } from "../../base/progress/mod.ts";
import { download, type FetchOptions } from "../../base/download/mod.ts";
import { fileError } from "./file_error.ts";
import { installedName, publishedNames } from "./name.ts";
import type { ManifestFile } from "./schema.ts";

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
 * Fetches one file of a release into `dir`.
 *
 * @param bases addresses of the manifest and its mirrors, beside which the files are
 * @throws {SbxError} `assets.not_found`, `assets.mismatch`, `assets.download_failed`, `disk.full`
 */
export async function installFile(
  dir: string,
  bases: readonly URL[],
  { arch, name, file }: ReleaseFile,
  progress: ProgressSink,
  options: FetchOptions,
): Promise<void> {
  try {
    await download({
      ...options,
      what: `${name} for ${arch}`,
      sources: bases.flatMap((base) => publishedNames(arch, name).map((place) => new URL(place, base))),
      path: join(dir, installedName(name, file.hash)),
      content: { size: file.size, blake3: file.hash },
      progress,
    });
  } catch (error) {
    throw fileError(error, `installing ${name}`);
  }
}
