import { SbxError } from "../base/error/mod.ts";
import { isCompatible } from "../base/semver/mod.ts";
import { VERSION } from "../base/version/mod.ts";
import type { Manifest } from "./schema.ts";

/**
 * Checks that this sbx may use the current release of a manifest: its `min_binary`, inclusive (docs/contracts.md §10).
 *
 * @throws {SbxError} `assets.incompatible`
 */
export function requireBinary({ assets: { current, releases } }: Manifest): void {
  const { min_binary } = releases[current];
  if (isCompatible(min_binary)) return;
  throw new SbxError(
    "assets.incompatible",
    `the asset release ${current} needs sbx ${min_binary} or newer; this is sbx ${VERSION}`,
    { hint: "update sbx, or install an older release: sbx update --assets --manifest <URL>" },
  );
}
