/**
 * Wakes watchers in a guest when a program of the host changes a shared folder: no notice of such a change crosses a
 * virtiofs mount, so that a build or a test run in the guest would wait for ever (docs/guides/live.md, "Watching").
 */
import { join, relative } from "node:path";
import { ignore } from "../../base/error/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import { maskOf } from "./mask.ts";

/** `ms` for which changes are gathered before the guest is told of them. */
const GATHER_MS = 20;
/** Most paths in one message to the guest, which follow one another. */
const PATHS_MAX = 64;
/** Most paths that wait (docs/design/contracts/14-limits.md §14); further ones are dropped. */
const WAITING_MAX = 10_000;
/** Most files whose last state is remembered. */
const KNOWN_MAX = 20_000;
/** Folders in which no program watches: their files come and go by the thousand. */
const UNWATCHED = new Set(["node_modules", "__pycache__"]);

/** A shared folder that is watched. */
export interface WatchedFolder {
  dir: string;
  /** masked names at its top */
  top: readonly string[];
}

/** Changes of a shared folder on the host, for its guest. */
export class FolderChanges {
  readonly #folder: WatchedFolder;
  readonly #wake: (paths: string[]) => Promise<void>;
  readonly #watcher: Deno.FsWatcher;
  readonly #waiting = new Set<string>();
  /** states of files that the guest was woken for: its own touch of a file changes none */
  readonly #known = new Map<string, string>();
  #isSending = false;

  /**
   * @param wake tells the guest of paths below the folder
   * @throws {Error} the folder cannot be watched, e.g. for want of inotify watches
   */
  constructor(folder: WatchedFolder, wake: (paths: string[]) => Promise<void>) {
    this.#folder = { ...folder, top: folder.top.map((name) => name.toLowerCase()) };
    this.#wake = wake;
    this.#watcher = Deno.watchFs(folder.dir, { recursive: true });
    this.#follow().catch(ignore("the folder is gone"));
  }

  close(): void {
    try {
      this.#watcher.close();
    } catch {
      // closed already
    }
  }

  async #follow(): Promise<void> {
    for await (const { kind, paths } of this.#watcher) {
      if (kind === "access") continue;
      for (const path of paths) this.#note(path);
      if (this.#waiting.size > 0) this.#send();
    }
  }

  #note(path: string): void {
    const below = relative(this.#folder.dir, path);
    if (below === "" || !isWatched(below, this.#folder.top) || this.#waiting.size >= WAITING_MAX) return;
    this.#waiting.add(below);
  }

  /** Sends what waits, one message after the other. */
  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (this.#waiting.size > 0) {
        await backgroundDelay(GATHER_MS);
        const paths = [...this.#waiting].slice(0, PATHS_MAX);
        for (const path of paths) this.#waiting.delete(path);
        const changed = (await Promise.all(paths.map((path) => this.#isNew(path)))).flatMap((isNew, at) =>
          isNew ? [paths[at]] : []
        );
        if (changed.length > 0) await this.#wake(changed);
      }
    } catch {
      // The guest has ended, or takes no such message: its image is of an earlier sbx.
      this.close();
    } finally {
      this.#isSending = false;
    }
  }

  async #isNew(path: string): Promise<boolean> {
    const state = await Deno.lstat(join(this.#folder.dir, path)).then(
      ({ ino, size, mtime, mode }) => [ino, size, mtime?.getTime(), mode].join(" "),
      () => "gone",
    );
    if (this.#known.get(path) === state) return false;
    this.#known.delete(path);
    this.#known.set(path, state);
    if (this.#known.size > KNOWN_MAX) this.#known.delete(this.#known.keys().next().value!);
    return true;
  }
}

/** Whether watchers of the guest may see a path, and would watch it. */
function isWatched(below: string, top: readonly string[]): boolean {
  const names = below.split("/");
  return names[0] !== ".." && !top.includes(names[0].toLowerCase()) &&
    names.every((name) => !UNWATCHED.has(name) && maskOf(name) !== "runs");
}
