/** Checks a manifest against the files beside it. */
import { dirname, join } from "node:path";
import { blake3, blake3File } from "../../base/hash/mod.ts";
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import { fileError, installedName, LOGICAL_NAMES, publishedNames } from "./name.ts";
import { readManifest } from "./manifest.ts";
import type { ManifestFile } from "./schema.ts";

/** One file of a {@linkcode ManifestReport}. */
export interface ReportedAsset {
  logical_name: string;
  /** BLAKE3 in the manifest */
  hash: string;
  /** size in the manifest, in `bytes` */
  size: number;
  /** path of the file, or the first one tried */
  path: string;
  present: boolean;
  size_ok: boolean;
  blake3_ok: boolean;
}

/** Report of `sbx-admin manifest generate` and `check` (docs/design/contracts/10-release.md §10). */
export interface ManifestReport {
  schema: "sbx.admin.manifest_report.v1";
  /** every file of the current release is present, and all present files match the manifest */
  ok: boolean;
  path: string;
  /** BLAKE3 of the manifest itself */
  blake3: string;
  refresh_policy: string;
  asset_version: string;
  binary_version: string;
  /** number of asset releases */
  releases: number;
  arches: { asset_version: string; arch: string; assets: ReportedAsset[] }[];
}

/**
 * Compares a manifest with the files beside it: as built (`<arch>/rootfs.erofs`), as published
 * (`<arch>-rootfs.erofs`) or as installed (`rootfs-<16 of hash>.erofs`). The progress stage `hash` counts
 * bytes.
 *
 * @throws {SbxError} `manifest.not_found`, `manifest.invalid`
 */
export async function checkManifest(path: string, progress: ProgressSink = silent): Promise<ManifestReport> {
  const { manifest, bytes } = await readManifest(path);
  const { assets, binaries } = manifest;
  const arches: ManifestReport["arches"] = [];
  let ok = true;
  const total = Object.values(assets.releases).flatMap(({ arches }) => Object.values(arches))
    .flatMap((files) => Object.values(files)).reduce((sum, { size }) => sum + size, 0);
  progress.stage("hash", total);
  for (const [version, release] of Object.entries(assets.releases)) {
    for (const [arch, files] of Object.entries(release.arches)) {
      const reported: ReportedAsset[] = [];
      for (const [name, file] of Object.entries(files).sort(byLogicalName)) {
        reported.push(await checkFile(dirname(path), arch, name, file, progress));
      }
      arches.push({ asset_version: version, arch, assets: reported });
      ok &&= reported.every(({ present, size_ok, blake3_ok }) =>
        present ? size_ok && blake3_ok : version !== assets.current
      );
    }
  }
  return {
    schema: "sbx.admin.manifest_report.v1",
    ok,
    path,
    blake3: blake3(bytes),
    refresh_policy: manifest.refresh_policy,
    asset_version: assets.current,
    binary_version: binaries.current,
    releases: Object.keys(assets.releases).length,
    arches,
  };
}

async function checkFile(
  dir: string,
  arch: string,
  name: string,
  { hash, size }: ManifestFile,
  progress: ProgressSink,
): Promise<ReportedAsset> {
  const places = [...publishedNames(arch, name).reverse(), installedName(name, hash)].map((place) =>
    join(dir, place)
  );
  let path = places[0], present = false, size_ok = false, blake3_ok = false;
  for (const place of places) {
    const info = await Deno.stat(place).catch(() => null);
    if (!info?.isFile) continue;
    path = place;
    present = true;
    size_ok = info.size === size;
    // A file of another size cannot match and is not hashed.
    if (size_ok) {
      const hashed = blake3File(place, (bytes) => progress.advance(bytes));
      blake3_ok = (await hashed.catch((error) => {
        throw fileError(error, `reading ${place}`);
      })).hash === hash;
    }
    break;
  }
  return { logical_name: name, hash, size, path, present, size_ok, blake3_ok };
}

function byLogicalName([a]: [string, unknown], [b]: [string, unknown]): number {
  const rank = (name: string) =>
    LOGICAL_NAMES.includes(name) ? LOGICAL_NAMES.indexOf(name) : LOGICAL_NAMES.length;
  return rank(a) - rank(b) || (a < b ? -1 : 1);
}
