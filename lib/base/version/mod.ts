/**
 * Version of this program. Imports constants only, so that `sbx version` starts as fast as an empty program.
 */
import { BUILD_HASH, SOURCE_DATE_EPOCH, VERSION } from "./stamp.ts";

export { BUILD_HASH, SOURCE_DATE_EPOCH, VERSION };

/**
 * Header with the version of the API, in requests and answers
 * (docs/design/contracts/02-http.md §2, "Promises").
 */
export const API_VERSION_HEADER = "sbx-api-version";
/** Version of the API: it changes when a stable route loses or changes a field. */
export const API_VERSION = "1";

/** Answer of `GET /version` and `sbx version --json`. */
export interface VersionInfo {
  version: string;
  build_hash: string;
  /** when the source of the build was committed, in ISO 8601; null in a source tree */
  build_time: string | null;
  platform: string;
  runtime: string;
}

/** Answer of `GET /version` and `sbx version --json`. */
export function versionInfo(): VersionInfo {
  return {
    version: VERSION,
    build_hash: BUILD_HASH,
    build_time: SOURCE_DATE_EPOCH === null ? null : new Date(SOURCE_DATE_EPOCH * 1000).toISOString(),
    platform: `${Deno.build.os}-${Deno.build.arch}`,
    runtime: `deno ${Deno.version.deno}`,
  };
}
