import { SbxError } from "../../base/error/mod.ts";
import { isCompatible } from "../../base/semver/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { Manifest } from "./schema.ts";

/**
 * Checks that this sbx and the current release of a manifest go together: the release's `min_binary`, and the
 * `min_assets` that the manifest has for this version of sbx; both inclusive
 * (docs/design/contracts/10-release.md §10).
 *
 * @throws {SbxError} `assets.incompatible`
 */
export function requireCompatibleAssets({ assets: { current, releases }, binaries }: Manifest): void {
  const { min_binary } = releases[current];
  if (!isCompatible(min_binary)) {
    throw new SbxError(
      "assets.incompatible",
      `the asset release ${current} needs sbx ${min_binary} or newer; this is sbx ${VERSION}`,
      { hint: "update sbx, or install an older release: sbx update --assets --manifest <URL>" },
    );
  }
  const minAssets = Object.hasOwn(binaries.releases, VERSION)
    ? binaries.releases[VERSION].min_assets
    : undefined;
  if (minAssets === undefined || compareAssetVersions(current, minAssets) >= 0) return;
  throw new SbxError(
    "assets.incompatible",
    `sbx ${VERSION} needs the asset release ${minAssets} or newer; the manifest's current one is ${current}`,
    { hint: "install a newer release: sbx update --assets --manifest <URL>" },
  );
}

/** Order of asset versions, `YYYY.MMDD.N`. @returns negative when `a` is older */
export function compareAssetVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number));
  const at = left.findIndex((number, index) => number !== right[index]);
  return at < 0 ? 0 : left[at] - right[at];
}
