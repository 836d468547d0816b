/** Paths of requests as a few patterns. */
import { canName } from "./text.ts";

/** Entries of one folder that are named one by one; with more, the folder is allowed as a whole. */
export const ENTRIES_MAX = 8;

/** Paths that a rule allows. */
export interface PathPattern {
  /** the path itself, or the beginning of paths, with its last slash */
  text: string;
  isPrefix: boolean;
}

/** A folder of the paths of a host. */
interface Folder {
  folders: Map<string, Folder>;
  /** names of paths that end here */
  ends: Set<string>;
  /** something below cannot be named */
  isOpen: boolean;
}

/**
 * Patterns that cover every path and little else, in order. A path is named as it is; the folder of more than
 * {@linkcode ENTRIES_MAX} entries, or of a path that no rule can name, by its beginning.
 */
export function patternsOf(paths: Iterable<string>): PathPattern[] {
  const root = emptyFolder();
  const whole: string[] = [];
  for (const path of paths) {
    if (path.startsWith("/")) insert(root, path.split("/").slice(1));
    else whole.push(path);
  }
  return [...whole.map((text) => ({ text, isPrefix: false })), ...collect(root, "/")]
    .sort((a, b) => a.text < b.text ? -1 : a.text > b.text ? 1 : 0);
}

/** True when a pattern covers a path. */
export function covers({ text, isPrefix }: PathPattern, path: string): boolean {
  return isPrefix ? path.startsWith(text) : path === text;
}

function insert(root: Folder, names: string[]): void {
  let folder = root;
  let length = 1;
  for (const name of names.slice(0, -1)) {
    length += name.length + 1;
    if (!canName(name) || !canName("x".repeat(length))) return void (folder.isOpen = true);
    let next = folder.folders.get(name);
    if (!next) folder.folders.set(name, next = emptyFolder());
    folder = next;
  }
  const last = names.at(-1)!;
  if (canName(last) && canName("x".repeat(length + last.length))) folder.ends.add(last);
  else folder.isOpen = true;
}

function* collect(folder: Folder, at: string): Generator<PathPattern> {
  if (folder.isOpen || folder.ends.size + folder.folders.size > ENTRIES_MAX) {
    return yield { text: at, isPrefix: true };
  }
  for (const name of folder.ends) yield { text: at + name, isPrefix: false };
  for (const [name, inner] of folder.folders) yield* collect(inner, `${at}${name}/`);
}

function emptyFolder(): Folder {
  return { folders: new Map(), ends: new Set(), isOpen: false };
}
