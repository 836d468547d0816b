import { basename, dirname } from "node:path";

/** Editors write a file in several steps; what comes within this time is one change. */
const DEBOUNCE_MS = 100;

/** A running watch. */
export interface Watch extends Disposable {
  close(): void;
}

/**
 * Calls `onChange` some time after one of the files changed, came or went. Folders are watched, since a rename puts a
 * new file in an old one's place; where a folder is missing, the nearest one above it is, until it comes.
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

  constructor(readonly paths: string[], readonly onChange: () => void) {}

  start() {
    const folders = new Set(this.paths.map((path) => existing(dirname(path))));
    const links = this.paths.flatMap(linkTarget);
    for (const target of links) folders.add(dirname(target));
    const names = new Set([...this.paths, ...links].map((path) => basename(path)));
    this.#watcher = Deno.watchFs([...folders], { recursive: false });
    this.#run(this.#watcher, names).catch(() => {/* closed while it started */});
  }

  async #run(watcher: Deno.FsWatcher, names: Set<string>) {
    const missing = this.paths.map(dirname).filter((folder) => existing(folder) !== folder);
    for await (const { paths, kind } of watcher) {
      if (kind === "access") continue;
      const isOurs = paths.some((path) => names.has(basename(path)));
      const folderCame = missing.some((folder) => paths.some((path) => folder.startsWith(path)));
      if (!isOurs && !folderCame) continue;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#fire(), DEBOUNCE_MS);
    }
  }

  #fire() {
    if (this.#isClosed) return;
    // Folders may have come and links may lead elsewhere now.
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

/** The folder, or the nearest one above it that exists. */
function existing(folder: string): string {
  for (let at = folder;; at = dirname(at)) {
    try {
      if (Deno.statSync(at).isDirectory) return at;
    } catch {
      // Not there or not to be looked at: the one above may be.
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
