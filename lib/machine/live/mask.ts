/** Names that a guest may neither see nor make in a folder of the host. */
import { isDotGit, isSecretFolder, secretPattern } from "../../repo/name/mod.ts";

/** Why a name is masked; a pattern where the file's content decides whether it is secret. */
export type Mask = "runs" | "secret" | RegExp | undefined;

/**
 * Names of what version control runs programs of: `HEAD`, without which no folder is a repository for git
 * whatever its name; names of bare repositories; other systems' folders.
 */
const RUNS = /^(?:head|\.hg|\.jj|\.sl|\.bzr|\.svn|_darcs|\.pijul|\.repo)$|\.git$/;

/**
 * Judges a name in any folder. `runs`: a host program that merely reads the folder could run the entry;
 * `.git` in every spelling is among them.
 *
 * @param name its bytes, as Latin-1
 */
export function maskOf(name: string): Mask {
  const lower = name.toLowerCase();
  if (name.split(/[\\:]/).some(isDotGit) || RUNS.test(lower)) return "runs";
  if (isSecretFolder(lower)) return "secret";
  const pattern = secretPattern(lower);
  return typeof pattern === "boolean" ? pattern ? "secret" : undefined : pattern;
}

/** Names at the top of a folder whose programs editors run, and git where it is configured to. */
export const TOP_NAMES = [".vscode", ".idea", ".zed", ".helix", ".husky", ".githooks"];
