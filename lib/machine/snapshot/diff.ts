import { type BytePath, type Entry, isWithin, split } from "./entry.ts";

/** One difference between two states of a workspace. */
export interface Change {
  path: BytePath;
  change: "created" | "deleted" | "modified" | "mode";
  before?: Entry;
  after?: Entry;
}

/**
 * Changes that turn `before` into `after`, sorted by path.
 *
 * An entry that `after` left out is no change, nor is anything below it: its content is unknown.
 *
 * @param paths only these and everything below them
 */
export function diff(
  before: ReadonlyMap<BytePath, Entry>,
  after: ReadonlyMap<BytePath, Entry>,
  paths: BytePath[] = [""],
): Change[] {
  const changes: Change[] = [];
  const isWanted = (path: BytePath) => paths.some((wanted) => isWithin(path, wanted));
  for (const [path, entry] of before) {
    if (after.has(path) || entry.type === "other" || !isWanted(path) || isBelowLeftOut(path, after)) continue;
    changes.push({ path, change: "deleted", before: entry });
  }
  for (const [path, entry] of after) {
    if (entry.type === "other" || !isWanted(path)) continue;
    const was = before.get(path);
    if (!was) changes.push({ path, change: "created", after: entry });
    else if (!isSame(was, entry)) {
      changes.push({ path, change: "modified", before: was, after: entry });
    } else if (entry.type !== "link" && was.mode !== entry.mode) {
      changes.push({ path, change: "mode", before: was, after: entry });
    }
  }
  return changes.sort((a, b) => a.path < b.path ? -1 : 1);
}

/** True if two states differ; the first difference decides. */
export function differs(a: ReadonlyMap<BytePath, Entry>, b: ReadonlyMap<BytePath, Entry>): boolean {
  if (a.size !== b.size) return true;
  for (const [path, entry] of a) {
    const other = b.get(path);
    if (!other || !isSame(entry, other) || entry.mode !== other.mode) return true;
  }
  return false;
}

function isSame(a: Entry, b: Entry): boolean {
  return a.type === b.type && a.object === b.object && (a.type === "other" || a.target === b.target);
}

function isBelowLeftOut(path: BytePath, entries: ReadonlyMap<BytePath, Entry>): boolean {
  for (let { folder } = split(path); folder !== ""; ({ folder } = split(folder))) {
    const entry = entries.get(folder);
    if (entry) return entry.type === "other";
  }
  return false;
}
