import { join } from "node:path";

/** Version, hash and date of a build. */
export interface Stamp {
  version: string;
  hash: string;
  /** in seconds since 1970 */
  sourceDateEpoch: number;
}

/**
 * Reads version and commit of the checkout; SOURCE_DATE_EPOCH and BUILD_HASH of the environment come first.
 */
export async function readStamp(root: string, version?: string): Promise<Stamp> {
  const config = JSON.parse(await Deno.readTextFile(join(root, "deno.json")));
  const git = async (...args: string[]) => {
    const { success, stdout } = await new Deno.Command("git", { args, cwd: root, stderr: "null" }).output();
    return success ? new TextDecoder().decode(stdout).trim() : undefined;
  };
  const epoch = Number(Deno.env.get("SOURCE_DATE_EPOCH") || await git("log", "-1", "--format=%ct"));
  if (!Number.isSafeInteger(epoch) || epoch <= 0) {
    throw new Error("build: no commit to take the time from; set SOURCE_DATE_EPOCH to seconds since 1970");
  }
  return {
    version: version ?? config.version,
    hash: Deno.env.get("BUILD_HASH") || await commit(git),
    sourceDateEpoch: epoch,
  };
}

async function commit(git: (...args: string[]) => Promise<string | undefined>): Promise<string> {
  const hash = await git("rev-parse", "--short=12", "HEAD");
  if (hash === undefined) {
    throw new Error("build: this is not a checkout of git; set BUILD_HASH to its commit");
  }
  return await git("status", "--porcelain") === "" ? hash : `${hash}-dirty`;
}

/** Text of lib/base/version/stamp.ts in a build. */
export function stampSource({ version, hash, sourceDateEpoch }: Stamp): string {
  return `export const VERSION: string = ${JSON.stringify(version)};
export const BUILD_HASH: string = ${JSON.stringify(hash)};
export const SOURCE_DATE_EPOCH: number | null = ${sourceDateEpoch};
`;
}
