/** Files of repositories that stay in the VM when a folder is copied out: git on this machine would obey them. */
import type { FileEntry } from "../../../lib/client/api/mod.ts";
import { isDotGit } from "../../../lib/repo/name/mod.ts";

/** Entries below a git folder that name programs, or lead to another git folder. */
const OBEYED =
  /^(?:(?:worktrees\/[^/]+\/)?(?:config|config\.worktree|hooks(?:\/.*)?|commondir|gitdir)|info\/attributes|objects\/info\/(?:http-)?alternates)$/;

/** Paths of a listing to leave behind; `.git` in any spelling, and bare repositories under any name. */
export function findBehind(entries: FileEntry[]): Set<string> {
  const names = namesOf(entries);
  const isGitFolder = (folder: string) => isNamedGit(folder) || isRepository(names.get(folder) ?? new Set());
  /** git folders above a path, by its folder: few, however deep it is */
  const above = new Map<string, string[]>();
  const gitAbove = (folder: string): string[] => {
    const unknown: string[] = [];
    for (let each = folder; !above.has(each); [each] = split(each)) {
      unknown.push(each);
      if (each === "") break;
    }
    let found = above.get(split(unknown.at(-1) ?? folder)[0]) ?? [];
    for (const each of unknown.reverse()) {
      above.set(each, found = isGitFolder(each) ? [...found, each] : found);
    }
    return above.get(folder)!;
  };
  const behind = new Set<string>();
  for (const { path, type } of entries) {
    if (type !== "directory" && isNamedGit(path)) behind.add(path);
    const isObeyed = (folder: string) =>
      OBEYED.test((folder === "" ? path : path.slice(folder.length + 1)).toLowerCase());
    if (gitAbove(split(path)[0]).some(isObeyed)) behind.add(path);
  }
  return behind;
}

/** Names in each folder. A guest may list the entries of a folder without the folder, which the copy makes. */
function namesOf(entries: FileEntry[]): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  const seen = new Set<string>();
  for (const { path } of entries) {
    for (let rest = path; rest !== "" && !seen.has(rest);) {
      seen.add(rest);
      const [folder, name] = split(rest);
      names.set(folder, (names.get(folder) ?? new Set()).add(name.toLowerCase()));
      rest = folder;
    }
  }
  return names;
}

/** Entries by which git recognises a repository (gitrepository-layout(5)). */
function isRepository(names: Set<string>): boolean {
  return names.has("head") && (names.has("objects") && names.has("refs") || names.has("commondir"));
}

function isNamedGit(path: string): boolean {
  return isDotGit(bytesOf(split(path)[1]));
}

function split(path: string): [folder: string, name: string] {
  const at = path.lastIndexOf("/");
  return [path.slice(0, Math.max(at, 0)), path.slice(at + 1)];
}

/** UTF-8 as one character per byte. */
export function bytesOf(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}
