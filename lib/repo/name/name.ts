/** Names of files and targets of links that are dangerous on the host, on any file system. */
import { textOf } from "../text.ts";
import { NAME_MAX } from "../limit.ts";

/** Characters that HFS+ leaves out of names when it compares them. */
const HFS_IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;
/** Short names that NTFS gives to `.git`. */
const NTFS_SHORT = /^git~[0-9]+$/i;

/**
 * Reason to refuse one name of a tree; undefined for a harmless one.
 *
 * @param name as {@linkcode latin1}
 */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "an empty name";
  if (name === "." || name === "..") return `the name "${name}"`;
  if (name.includes("/") || name.includes("\0")) return "a name with a slash or NUL";
  if (name.length > NAME_MAX) return `a name of more than ${NAME_MAX} bytes`;
  // A backslash and a colon part a name on other systems: of a path, of a stream of NTFS.
  if (name.split(/[\\:]/).some(isDotGit)) return "a name that is .git on some file system";
  if (name.split("\\").includes("..")) return "a name with .. between backslashes";
  return undefined;
}

/** True if a name, as `latin1`, is `.git` on some file system. */
export function isDotGit(part: string): boolean {
  const bare = foldedName(part);
  return bare === ".git" || NTFS_SHORT.test(bare);
}

/** A name, as `latin1`, as the least exact file systems compare it. */
export function foldedName(part: string): string {
  const text = textOf(part).replace(HFS_IGNORED, "");
  // NTFS drops dots and spaces at the end.
  return text.normalize("NFKC").toLowerCase().replace(/[. ]+$/, "");
}

/**
 * Why the target of a link is refused; undefined for one that stays inside. `..` may stand only at its beginning, where it
 * goes up through real folders: behind a name it could go up through another link.
 *
 * @param target as {@linkcode latin1}
 * @param depth folders above the link
 */
export function targetProblem(target: string, depth: number): string | undefined {
  if (target === "" || target.includes("\0")) return "a link without a target";
  if (/^(?:\/|[A-Za-z]:|\\)/.test(target)) return "a link to an absolute path";
  const parts = target.split(/[/\\]/).filter((part) => part !== "" && part !== ".");
  const ups = parts.findIndex((part) => part !== "..");
  const climbed = ups < 0 ? parts.length : ups;
  if (climbed > depth || parts.slice(climbed).includes("..")) {
    return "a link that leads out of the repository";
  }
  if (parts.some((part) => part.split(":").some(isDotGit))) return "a link into .git";
  return undefined;
}
