/** What this program is. Imports nothing: `sbx version` starts as fast as an empty program. */

/** SemVer of this source; a test compares it with deno.json. */
export const VERSION = "0.1.0";

/** Commit that a build was made from; `make build` replaces it, a source tree says `dev`. */
export const BUILD_HASH = "dev";

/** What `GET /version` and `sbx version --json` answer. */
export function versionInfo(): { version: string; build_hash: string; platform: string; runtime: string } {
  return {
    version: VERSION,
    build_hash: BUILD_HASH,
    platform: `${Deno.build.os}-${Deno.build.arch}`,
    runtime: `deno ${Deno.version.deno}`,
  };
}
