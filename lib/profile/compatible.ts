import { greaterOrEqual, tryParse } from "@std/semver";
import program from "../../deno.json" with { type: "json" };

/** The version of this sbx. */
export const SBX_VERSION: string = program.version;

/** Whether a text is a SemVer 2.0 version. */
export function isSemVer(version: string): boolean {
  // The parser takes a leading "v" and white space, which SemVer does not have.
  return /^\d/.test(version) && tryParse(version)?.major !== undefined && version.trim() === version;
}

/**
 * Whether this sbx satisfies a profile's `min_sbx_version`, inclusive. One that is no version is not satisfied
 * (contracts.md §4).
 */
export function isCompatible(minimum: string | undefined, version = SBX_VERSION): boolean {
  if (minimum === undefined) return true;
  return isSemVer(minimum) && greaterOrEqual(tryParse(version)!, tryParse(minimum)!);
}
