import { VERSION } from "../base/version/mod.ts";
import { greaterOrEqual, tryParse } from "@std/semver";

/** Whether a text is a SemVer 2.0 version. */
export function isSemVer(version: string): boolean {
  // The parser takes a leading "v" and white space, which SemVer does not have.
  return /^\d/.test(version) && tryParse(version)?.major !== undefined && version.trim() === version;
}

/**
 * Whether this sbx satisfies a profile's `min_sbx_version`, inclusive. One that is no version is not satisfied
 * (contracts.md §4).
 */
export function isCompatible(minimum: string | undefined, version = VERSION): boolean {
  if (minimum === undefined) return true;
  return isSemVer(minimum) && greaterOrEqual(tryParse(version)!, tryParse(minimum)!);
}
