/** Facts about this build. scripts/build.ts compiles another text of this file into the program. */

/** SemVer of this source; a test compares it with deno.json. */
export const VERSION: string = "0.1.0";

/** Commit of the build, with `-dirty` behind it if files differed from it; `dev` in a source tree. */
export const BUILD_HASH: string = "dev";

/** Time of the build's commit in seconds since 1970, `SOURCE_DATE_EPOCH`; null in a source tree. */
export const SOURCE_DATE_EPOCH: number | null = null;
