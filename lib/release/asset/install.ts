/** Installs the images of a manifest: fetches missing files, and verifies each of them. */
import type { Arch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { blake3, blake3File } from "../../base/hash/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import { readSetup, recordStep } from "../setup/mod.ts";
import { displayUrl, download, type FetchOptions, fetchSmall, requireRoom } from "../../base/download/mod.ts";
import { ReleaseMemory, requireNotRevoked, standingOfAssets } from "../mod.ts";
import {
  compareAssetVersions,
  MANIFEST_LIMIT,
  parseManifest,
  parseManifestHash,
  parseManifestUrl,
  requireCompatibleAssets,
  requireTrustworthy,
} from "./manifest.ts";
import { DEFAULT_IMAGE, fileError, installedName, publishedNames } from "./name.ts";
import { changeAssets, readInstalled, replacePair } from "./pair.ts";
import { resolveAssets, verifyAssets } from "./resolve.ts";
import { type Manifest, type ManifestFile, ManifestOrigin } from "./schema.ts";
import { join } from "node:path";
import { parseJson } from "../../base/json/mod.ts";

/** Where a package names the manifest that its installer fetches (docs/guides/packages.md). */
export const PACKAGED_ORIGIN = "/usr/share/sbx/manifest-origin.json";

/**
 * Finds a package's facts about the manifest at this address, for the record of its origin.
 *
 * @returns undefined where no package names this address
 */
export async function packagedOrigin(
  url: string,
  path = PACKAGED_ORIGIN,
): Promise<Pick<ManifestOrigin, "origin" | "packaged_at" | "package_version"> | undefined> {
  const text = await Deno.readTextFile(path).catch(() => undefined);
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    return undefined;
  }
  const { data } = ManifestOrigin.safeParse(value);
  if (data?.origin !== "package" || data.source !== url) return undefined;
  const { origin, packaged_at, package_version } = data;
  return { origin, ...(packaged_at && { packaged_at }), ...(package_version && { package_version }) };
}

/** Options for installing assets. */
export interface InstallOptions extends FetchOptions {
  /** `file://`, `http://` or `https://` */
  manifestUrl: string;
  /** BLAKE3 of the manifest: needed where it comes over plain http from another machine */
  manifestHash?: string;
  /** further addresses of the folder of the manifest, for its files only */
  mirrors?: readonly string[];
  home: Home;
  /** architecture whose files are installed */
  arch: Arch;
  /** installs a release older than the installed one */
  allowDowngrade?: boolean;
  /**
   * file in which a package names its manifest: an update from that address records the package as its origin
   */
  packagedOriginPath?: string;
  /** the stage `assets` counts bytes */
  progress?: ProgressSink;
  /** called when another change is under way, which this one waits for */
  onWait?: () => void;
  /** notes a change before it takes place; a failure prevents it */
  record?: (change: AssetChange) => Promise<void>;
}

/** A change of the installed release. */
export interface AssetChange {
  /** profile that the image belongs to */
  profile: string;
  /** absent: the first release of this profile */
  from?: string;
  to: string;
  /** origin of the manifest, without a password */
  source: string;
  /** older than the installed release, which boots; a person allowed it */
  isDowngrade: boolean;
}

/** Result of an installation. */
export interface InstallResult {
  version: string;
  /** profile that the image belongs to */
  profile: string;
  /** version that was installed before */
  previous?: string;
  /** files fetched, without those already installed */
  fetched: string[];
}

/**
 * Implements `sbx update --assets --manifest URL` (docs/design/contracts/10-release.md §10): fetches and
 * verifies the missing files of the manifest's current release, then replaces manifest and origin of the same
 * profile's image. On any failure, and after a crash at any moment, the old set or the new one is whole.
 *
 * @throws {SbxError} `manifest.invalid`, `manifest.mismatch`, `manifest.url.insecure`, `assets.incompatible`,
 * `assets.downgrade`, `assets.arch.not_found`, `release.revoked`, `assets.mismatch`,
 * `assets.download_failed`, `disk.full`
 */
export async function installAssets(options: InstallOptions): Promise<InstallResult> {
  const { home, arch, progress = silent } = options;
  const url = parseManifestUrl(options.manifestUrl);
  // A mirror's bytes must match the hashes in the manifest.
  const bases = [
    url,
    ...(options.mirrors ?? []).map((text) => new URL("./", parseManifestUrl(folderOf(text)))),
  ];
  const bytes = await fetchManifest(url, options);
  const manifest = parseManifest(bytes, displayUrl(url));
  requireCompatibleAssets(manifest);
  const files = releaseFiles(manifest, arch);
  const { current, releases } = manifest.assets;
  const profile = releases[current].image?.profile ?? DEFAULT_IMAGE;
  const standing = standingOfAssets(await new ReleaseMemory(home).read(), files.map(({ file }) => file.hash));
  requireNotRevoked(standing, `the asset release ${current}`);
  return await changeAssets(home, "installing VM assets", async () => {
    const previous = await installedVersion(home, profile);
    const isDowngrade = previous !== undefined && compareAssetVersions(current, previous) < 0 &&
      await boots(home, arch, profile);
    if (isDowngrade && !options.allowDowngrade) throw downgradeError(profile, previous, current);
    const fetched = await fetchMissing(home.assetsDir, bases, files, progress, options);
    const source = displayUrl(url);
    await options.record?.({
      profile,
      ...(previous && { from: previous }),
      to: current,
      source,
      isDowngrade,
    });
    await replacePair(home.assetsDir, profile, {
      manifest: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
      origin: {
        schema: "sbx.manifest_origin.v1",
        origin: "update",
        source,
        fetched_at: new Date().toISOString(),
        ...await packagedOrigin(options.manifestUrl, options.packagedOriginPath),
      },
    });
    const isNew = previous !== current || fetched.length > 0;
    if (isNew || !(await readSetup(home)).install_completed) await recordStep(home, "assets");
    return { version: current, profile, ...(previous && { previous }), fetched };
  }, options.onWait);
}

async function fetchManifest(url: URL, options: InstallOptions): Promise<Uint8Array> {
  const manifestHash = options.manifestHash && parseManifestHash(options.manifestHash);
  requireTrustworthy(url, manifestHash);
  const bytes = await fetchSmall(url, MANIFEST_LIMIT, options);
  if (!bytes) {
    throw new SbxError("manifest.not_found", `there is no asset manifest at ${displayUrl(url)}`, {
      hint: "check the address after --manifest",
    });
  }
  const actual = blake3(bytes);
  if (manifestHash === undefined || actual === manifestHash) return bytes;
  throw new SbxError(
    "manifest.mismatch",
    `the manifest at ${
      displayUrl(url)
    } is not the expected one: expected BLAKE3 ${manifestHash}, got ${actual}`,
    { hint: "sbx-admin manifest check MANIFEST prints the hash of a manifest; nothing was changed" },
  );
}

/** Version of the installed release; an unreadable one is always replaced. */
async function installedVersion({ assetsDir }: Home, profile: string): Promise<string | undefined> {
  return await readInstalled(assetsDir, profile).then(
    ({ manifest }) => manifest.assets.current,
    () => undefined,
  );
}

/** True if the installed release could boot a VM: a broken one is no reason to refuse an older one. */
async function boots(home: Home, arch: Arch, profile: string): Promise<boolean> {
  return await resolveAssets(home, arch, profile).then(verifyAssets).then(() => true, () => false);
}

/** An old release has faults that newer ones fixed: offering it again may be an attack. */
function downgradeError(profile: string, from: string, to: string): SbxError {
  return new SbxError(
    "assets.downgrade",
    `the release ${to} is older than the installed release ${from} of "${profile}"`,
    { hint: "if you mean it, add --allow-downgrade; sbx update status keeps a record of it" },
  );
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
  bases: URL[],
  files: ReleaseFile[],
  progress: ProgressSink,
  options: FetchOptions,
): Promise<string[]> {
  const present = await Promise.all(files.map((item) => isInstalled(dir, item)));
  const missing = files.filter((_, at) => !present[at]);
  const total = missing.reduce((sum, { file }) => sum + file.size, 0);
  // Copies of local files may share their blocks, and take no room.
  if (bases[0].protocol !== "file:") await requireRoom(dir, total);
  progress.stage("assets", total);
  for (const item of missing) await installFile(dir, bases, item, progress, options);
  return missing.map(({ name, file }) => installedName(name, file.hash));
}

/** Address of a folder, with its slash. */
function folderOf(text: string): string {
  return text.endsWith("/") ? text : `${text}/`;
}

/** One file of an asset release. */
interface ReleaseFile {
  arch: string;
  name: string;
  file: ManifestFile;
}

/** Tests whether a file is installed with the size and hash of the manifest. */
async function isInstalled(dir: string, { name, file }: ReleaseFile): Promise<boolean> {
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
async function installFile(
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
