import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { type ProgressSink, silent } from "../base/progress/mod.ts";
import { requireBinary } from "./compatible.ts";
import { displayUrl, openSource } from "./download.ts";
import { installFile, isInstalled, type ReleaseFile } from "./file.ts";
import { changeAssets } from "./lock.ts";
import { MANIFEST_LIMIT, parseManifest } from "./manifest.ts";
import { DEFAULT_IMAGE, installedName, manifestNames } from "./name.ts";
import type { Manifest, ManifestOrigin } from "./schema.ts";
import { parseManifestUrl } from "./url.ts";

/** Options for installing assets. */
export interface InstallOptions {
  /** `file://`, `http://` or `https://` */
  manifestUrl: string;
  home: Home;
  /** architecture whose files are installed */
  arch: string;
  /** the stage `assets` counts bytes */
  progress?: ProgressSink;
}

/** Result of an installation. */
export interface InstallResult {
  version: string;
  /** profile that the image belongs to */
  profile: string;
  /** files fetched, without those already installed */
  fetched: string[];
}

/**
 * Implements `sbx update --assets --manifest URL` (docs/contracts.md §10): fetches and verifies the missing
 * files of the manifest's current release, then replaces manifest and origin of the same profile's image. On any failure
 * the old pair stays or is restored.
 *
 * @throws {SbxError} `manifest.invalid`, `assets.incompatible`, `assets.arch.not_found`, `assets.mismatch`,
 * `assets.download_failed`, `disk.full`
 */
export async function installAssets(options: InstallOptions): Promise<InstallResult> {
  const { manifestUrl, home, arch, progress = silent } = options;
  const url = parseManifestUrl(manifestUrl);
  const bytes = await fetchManifest(url);
  const manifest = parseManifest(bytes, displayUrl(url));
  requireBinary(manifest);
  const files = releaseFiles(manifest, arch);
  const { current, releases } = manifest.assets;
  const profile = releases[current].image?.profile ?? DEFAULT_IMAGE;
  return await changeAssets(home, "installing VM assets", async () => {
    const fetched = await fetchMissing(home.assetsDir, url, files, progress);
    await replacePair(home.assetsDir, manifestNames(profile), bytes, {
      schema: "sbx.manifest_origin.v1",
      origin: "update",
      source: displayUrl(url),
      fetched_at: new Date().toISOString(),
    });
    return { version: current, profile, fetched };
  });
}

async function fetchManifest(url: URL): Promise<Uint8Array> {
  const source = await openSource(url);
  if (!source) {
    throw new SbxError("manifest.not_found", `there is no asset manifest at ${displayUrl(url)}`, {
      hint: "check the address after --manifest",
    });
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of source.chunks) {
    size += chunk.length;
    chunks.push(chunk);
    if (size > MANIFEST_LIMIT) break;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

function releaseFiles(manifest: Manifest, arch: string): ReleaseFile[] {
  const { current, releases } = manifest.assets;
  const files = releases[current].arches[arch];
  if (!files) {
    throw new SbxError("assets.arch.not_found", `the asset release ${current} has no files for ${arch}`, {
      hint: `the release has ${Object.keys(releases[current].arches).join(", ")}`,
    });
  }
  return Object.entries(files).map(([name, file]) => ({ arch, name, file }));
}

async function fetchMissing(
  dir: string,
  url: URL,
  files: ReleaseFile[],
  progress: ProgressSink,
): Promise<string[]> {
  const present = await Promise.all(files.map((item) => isInstalled(dir, item)));
  const missing = files.filter((_, at) => !present[at]);
  progress.stage("assets", missing.reduce((sum, { file }) => sum + file.size, 0));
  for (const item of missing) await installFile(dir, url, item, progress);
  return missing.map(({ name, file }) => installedName(name, file.hash));
}

/** Writes both or neither. */
async function replacePair(
  dir: string,
  names: { manifest: string; origin: string },
  manifest: Uint8Array,
  origin: ManifestOrigin,
): Promise<void> {
  const paths = [join(dir, names.manifest), join(dir, names.origin)];
  const contents = [manifest, JSON.stringify(origin, null, 2) + "\n"];
  const old = await Promise.all(paths.map((path) => Deno.readFile(path).catch(() => null)));
  try {
    for (const [at, path] of paths.entries()) await writeAtomic(path, contents[at]);
  } catch (error) {
    for (const [at, path] of paths.entries()) {
      const before = old[at];
      await (before ? writeAtomic(path, before) : Deno.remove(path)).catch(() => {});
    }
    throw error;
  }
}
