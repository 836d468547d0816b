/** Watches configuration files for changes, also files that do not exist yet. */
import { basename, dirname } from "node:path";

/**
 * Quiet time after a file event, in `ms`: editors write a file in several steps, which count as one change.
 */
const DEBOUNCE_MS = 100;

/** Running watch. */
export interface Watch extends Disposable {
  close(): void;
}

/**
 * Calls `onChange` shortly after a file of a folder, or one of the others, changes, appears or
 * disappears; the folder may be missing.
 */
export function watchFolder(folder: string, others: string[], onChange: () => void): Watch {
  const watch = new FileWatch(others, onChange, [folder]);
  watch.start();
  return watch;
}

/**
 * Calls `onChange` shortly after one of the files changes, appears or disappears. Watches
 * folders, since a rename replaces the file itself; for a missing folder, watches the nearest
 * existing parent until it appears.
 */
export function watchFiles(paths: string[], onChange: () => void): Watch {
  const watch = new FileWatch(paths, onChange);
  watch.start();
  return watch;
}

class FileWatch implements Watch {
  #watcher?: Deno.FsWatcher;
  #timer?: ReturnType<typeof setTimeout>;
  #isClosed = false;

  /** @param folders whose files are all watched */
  constructor(
    readonly paths: string[],
    readonly onChange: () => void,
    readonly folders: readonly string[] = [],
  ) {}

  start() {
    const folders = new Set(this.#folders().map(nearestExisting));
    const links = this.paths.flatMap(linkTarget);
    for (const target of links) folders.add(dirname(target));
    const names = new Set([...this.paths, ...links].map((path) => basename(path)));
    this.#watcher = Deno.watchFs([...folders], { recursive: false });
    this.#run(this.#watcher, names).catch(() => {/* closed during start */});
  }

  async #run(watcher: Deno.FsWatcher, names: Set<string>) {
    const missing = this.#folders().filter((folder) => nearestExisting(folder) !== folder);
    for await (const { paths, kind } of watcher) {
      if (kind === "access") continue;
      const isWatched = paths.some((path) =>
        names.has(basename(path)) || this.folders.includes(dirname(path)) || this.folders.includes(path)
      );
      const hasAppeared = missing.some((folder) => paths.some((path) => folder.startsWith(path)));
      if (!isWatched && !hasAppeared) continue;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#fire(), DEBOUNCE_MS);
    }
  }

  #folders(): string[] {
    return [...this.paths.map(dirname), ...this.folders];
  }

  #fire() {
    if (this.#isClosed) return;
    // Folders may have appeared and links may point elsewhere.
    this.#watcher?.close();
    this.start();
    this.onChange();
  }

  [Symbol.dispose]() {
    this.close();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#watcher?.close();
    this.#watcher = undefined;
  }
}

/** The folder, or its nearest existing parent. */
function nearestExisting(folder: string): string {
  for (let at = folder;; at = dirname(at)) {
    try {
      if (Deno.statSync(at).isDirectory) return at;
    } catch {
      // Missing or inaccessible: try the parent.
    }
    if (at === dirname(at)) return at;
  }
}

function linkTarget(path: string): string[] {
  try {
    const target = Deno.realPathSync(path);
    return target === path ? [] : [target];
  } catch {
    return [];
  }
}
