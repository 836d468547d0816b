/** Names that a guest may neither see nor make in a folder of the host. */
import { isDotGit, isSecretFolder, secretPattern } from "../../repo/name/mod.ts";

/**
 * Why a name is masked. `runs`: a host program that merely reads the folder could run the entry. A pattern
 * matches the content of files that are secret.
 */
export type Mask = "runs" | "secret" | RegExp | undefined;

/**
 * Names in repositories, whose hooks and configuration run programs: `HEAD`, without which git takes no
 * folder for a repository; bare repositories; folders of other version control systems.
 */
const RUNS = /^(?:head|\.hg|\.jj|\.sl|\.bzr|\.svn|_darcs|\.pijul|\.repo)$|\.git$/;

/**
 * Judges a name in any folder. `.git` is recognized in every spelling that a file system of the host could
 * take for it.
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

/** Names at the top of a folder with programs that editors run, and git if it is configured to. */
export const TOP_NAMES = [".vscode", ".idea", ".zed", ".helix", ".husky", ".githooks"];
