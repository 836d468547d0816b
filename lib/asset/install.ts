import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { type ProgressSink, silent } from "../base/progress/mod.ts";
import { type Blob, installBlob, isInstalled } from "./blob.ts";
import { open, shown } from "./download.ts";
import { fileError } from "./file_error.ts";
import { MANIFEST_LIMIT, parseManifest } from "./manifest.ts";
import { installedName, MANIFEST, MANIFEST_ORIGIN } from "./name.ts";
import type { Manifest, ManifestOrigin } from "./schema.ts";
import { parseManifestUrl } from "./url.ts";

/** What to install, and where. */
export interface InstallOptions {
  /** `file://`, `http://` or `https://` */
  manifestUrl: string;
  home: Home;
  /** architecture whose files are wanted; the others are left alone */
  arch: string;
  /** its stage `assets` counts bytes */
  progress?: ProgressSink;
}

/** What an update did. */
export interface Installed {
  version: string;
  /** files that were fetched; those that were there already are not among them */
  fetched: string[];
}

/**
 * `sbx update --assets --manifest URL` (contracts.md §10): fetches the missing files of the manifest's current
 * release, verifies them, then puts manifest and origin in place. The old pair stays, or comes back, when anything fails.
 *
 * @throws {SbxError} `manifest.invalid`, `assets.arch.not_found`, `assets.mismatch`, `assets.download_failed`, `disk.full`
 */
export async function installAssets(options: InstallOptions): Promise<Installed> {
  const { manifestUrl, home, arch, progress = silent } = options;
  const url = parseManifestUrl(manifestUrl);
  const bytes = await fetchManifest(url);
  const manifest = parseManifest(bytes, shown(url));
  const blobs = blobsOf(manifest, arch);
  try {
    await Deno.mkdir(home.assetsDir, { recursive: true, mode: 0o700 });
    // Two updates at once would write the same .part: the second waits, and then finds everything there.
    using lock = await Deno.open(join(home.assetsDir, ".lock"), { write: true, create: true, mode: 0o600 });
    await lock.lock(true);
    const fetched = await fetchMissing(home.assetsDir, url, blobs, progress);
    await replacePair(home.assetsDir, bytes, {
      schema: "sbx.manifest_origin.v1",
      origin: "update",
      source: shown(url),
      fetched_at: new Date().toISOString(),
    });
    return { version: manifest.assets.current, fetched };
  } catch (error) {
    throw fileError(error, `installing VM assets in ${home.assetsDir}`);
  }
}

async function fetchManifest(url: URL): Promise<Uint8Array> {
  const source = await open(url);
  if (!source) throw new SbxError("manifest.not_found", `there is no asset manifest at ${shown(url)}`);
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

function blobsOf(manifest: Manifest, arch: string): Blob[] {
  const { current, releases } = manifest.assets;
  const files = releases[current].arches[arch];
  if (!files) {
    throw new SbxError("assets.arch.not_found", `the asset release ${current} has no files for ${arch}`, {
      hint: `it has ${Object.keys(releases[current].arches).join(", ")}`,
    });
  }
  return Object.entries(files).map(([name, file]) => ({ arch, name, file }));
}

async function fetchMissing(dir: string, url: URL, blobs: Blob[], progress: ProgressSink): Promise<string[]> {
  const there = await Promise.all(blobs.map((blob) => isInstalled(dir, blob)));
  const missing = blobs.filter((_, at) => !there[at]);
  progress.stage("assets", missing.reduce((sum, { file }) => sum + file.size, 0));
  for (const blob of missing) await installBlob(dir, url, blob, progress);
  return missing.map(({ name, file }) => installedName(name, file.hash));
}

/** Writes both or neither. */
async function replacePair(dir: string, manifest: Uint8Array, origin: ManifestOrigin): Promise<void> {
  const paths = [join(dir, MANIFEST), join(dir, MANIFEST_ORIGIN)];
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
