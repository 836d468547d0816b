/**
 * The watches of inotify that a watcher has: one a folder, from the number that all programs
 * of its user share. Linux only.
 */

/** Part of its user's watches that one watcher may have; a guest makes folders by the million. */
const SHARE = 3 / 4;
/** Most of them: each takes a kilobyte of the kernel's memory. */
const WATCHES_MAX = 131_072;
/** Part of its watches by which a watcher's may grow before they are counted again. */
const STEP = 1 / 64;
const LIMITS = ["/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"];
const NEWLINE = 10;

/** The watches of one watcher. */
export class Watches {
  /** number of the watcher's open file */
  readonly #file: string | undefined;
  readonly #max: number;
  /** folders that may be made before the watches are counted again */
  #left = 0;

  private constructor(file: string | undefined) {
    this.#file = file;
    this.#max = Math.floor(Math.min(WATCHES_MAX, SHARE * Math.min(...LIMITS.map(numberIn))));
  }

  /** Makes a watcher, with its watches. */
  static of(make: () => Deno.FsWatcher): { watcher: Deno.FsWatcher; watches: Watches } {
    const before = inotifyFiles();
    const watcher = make();
    const file = inotifyFiles().find((each) => !before.includes(each));
    return { watcher, watches: new Watches(file) };
  }

  /**
   * Takes note of something new, which may be a folder.
   * @returns true if the watcher has more watches than it may
   */
  add(): boolean {
    if (this.#left-- > 0) return false;
    const count = this.#count();
    this.#left = Math.max(this.#max - count, Math.ceil(this.#max * STEP)) - 1;
    return count > this.#max;
  }

  /** Counts them, to no more than one above the maximum. */
  #count(): number {
    if (this.#file === undefined) return 0;
    using info = Deno.openSync(`/proc/self/fdinfo/${this.#file}`);
    const bytes = new Uint8Array(64 * 1024);
    const max = this.#max + HEAD_LINES;
    let lines = 0;
    for (let read = info.readSync(bytes); read && lines <= max; read = info.readSync(bytes)) {
      for (let at = 0; at < read; at++) if (bytes[at] === NEWLINE) lines++;
    }
    return lines - HEAD_LINES;
  }
}

/** Lines of fdinfo before the ones of watches: pos, flags, mnt_id, ino. */
const HEAD_LINES = 4;

function inotifyFiles(): string[] {
  return Array.from(Deno.readDirSync("/proc/self/fd"), ({ name }) => name).filter((name) => {
    try {
      return Deno.readLinkSync(`/proc/self/fd/${name}`) === "anon_inode:inotify";
    } catch {
      // The folder itself, which was open.
      return false;
    }
  });
}

/** @returns Infinity without one */
function numberIn(path: string): number {
  try {
    return Number(Deno.readTextFileSync(path)) || Infinity;
  } catch {
    return Infinity;
  }
}
