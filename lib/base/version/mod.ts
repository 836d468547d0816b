/** Version of this program. Imports nothing, so that `sbx version` starts as fast as an empty program. */

/** SemVer of this source; a test compares it with deno.json. */
export const VERSION = "0.1.0";

/** Commit of the build; `make build` replaces it, `dev` in a source tree. */
export const BUILD_HASH = "dev";

/** Answer of `GET /version` and `sbx version --json`. */
export function versionInfo(): { version: string; build_hash: string; platform: string; runtime: string } {
  return {
    version: VERSION,
    build_hash: BUILD_HASH,
    platform: `${Deno.build.os}-${Deno.build.arch}`,
    runtime: `deno ${Deno.version.deno}`,
  };
}
