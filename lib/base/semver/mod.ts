/** Versions of sbx that others require, and their order. */
import { compare, greaterOrEqual, tryParse } from "@std/semver";
import { VERSION } from "../version/mod.ts";

/** Tests for a SemVer 2.0 version. */
export function isSemVer(version: string): boolean {
  // The parser also accepts a leading "v" and white space, which SemVer does not allow.
  return /^\d/.test(version) && tryParse(version)?.major !== undefined && version.trim() === version;
}

/**
 * Orders two SemVer versions by precedence; build metadata takes no part.
 *
 * @returns -1, 0 or 1
 * @throws {TypeError} a text is no version
 */
export function compareSemVer(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => {
    const version = isSemVer(text) ? tryParse(text) : undefined;
    if (!version) throw new TypeError(`"${text}" is not a SemVer version`);
    return version;
  });
  return compare(left, right);
}

/**
 * Tests whether this sbx is at least `minimum`: `min_sbx_version` of a profile
 * (docs/design/contracts/04-profiles.md §4), `min_binary` of an asset release (§10). An invalid version is
 * never satisfied.
 */
export function isCompatible(minimum: string | undefined, version = VERSION): boolean {
  if (minimum === undefined) return true;
  return isSemVer(minimum) && greaterOrEqual(tryParse(version)!, tryParse(minimum)!);
}
