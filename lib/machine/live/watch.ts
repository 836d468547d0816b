/**
 * Changes of a shared folder on the host, for its guest: no notice of such a change crosses a virtiofs mount.
 * A program of the guest that watches a file would wait for ever (docs/guides/live.md, "Watching"), and the
 * guest's kernel, which keeps names and states of files for minutes, would show old ones.
 */
import { join, relative } from "node:path";
import { log } from "../../base/log/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import { maskOf } from "./mask.ts";
import { isOfThisMachine } from "./notices.ts";
import { Watches } from "./watches.ts";

/** Time for which changes are gathered before the guest gets them, in `ms`. */
const GATHER_MS = 20;
/** Most paths in one message to the guest. */
const PATHS_MAX = 64;
/** Most paths that wait (docs/design/contracts/14-limits.md §14); watchers do not hear of further ones. */
const WAITING_MAX = 10_000;
/** Most paths that the guest looks up again; for more, it drops all names instead. */
const LOOKS_MAX = 512;
/** Least time between two drops of all names, and wait before a failed message is sent again, in `ms`. */
const DROP_MS = 1000;
/** Failures of the watcher in a row after which it is given up. */
const FAILURES_MAX = 1000;
/** Most files whose last state is remembered. */
const KNOWN_MAX = 20_000;
/** Folders in which no program watches: their files come and go by the thousand. */
const UNWATCHED = new Set(["node_modules", "__pycache__"]);

/** A shared folder that is watched. */
export interface WatchedFolder {
  dir: string;
  /** its name in the workspace */
  name: string;
  /** masked names at its top */
  top: readonly string[];
  /** folder of the host with the rest of the workspace */
  workspace: string;
}

/**
 * Order to a guest: `wake` the programs that watch paths, or only `look` the paths up again.
 *
 * @param paths below the workspace; none: it is to drop all names
 */
export type GuestAction = (action: "wake" | "look", paths: string[]) => Promise<void>;

/** Changes of a shared folder on the host, for its guest. */
export class FolderChanges {
  /** the kernel reports every change, also by other machines */
  readonly isComplete: boolean;
  readonly #folder: WatchedFolder;
  readonly #watcher: Deno.FsWatcher;
  readonly #watches: Watches;
  readonly #waking = new Set<string>();
  readonly #looking = new Set<string>();
  /** last state of each file that woke the guest: a notice without a change does not wake it again */
  readonly #known = new Map<string, string>();
  #tell: GuestAction | undefined;
  #dropsAll = false;
  #dropped = -Infinity;
  #isSending = false;
  #isBlind = false;
  #isClosed = false;

  /**
   * Gathers changes from now on.
   * @throws {Error} the folder cannot be watched, e.g. since it has too many folders
   */
  constructor(folder: WatchedFolder) {
    this.#folder = { ...folder, top: folder.top.map((name) => name.toLowerCase()) };
    const { watcher, watches } = Watches.of(() =>
      Deno.watchFs([folder.dir, folder.workspace], { recursive: true })
    );
    [this.#watcher, this.#watches] = [watcher, watches];
    if (watches.add()) {
      this.close();
      throw new Error("it has more folders than one program should watch");
    }
    const mounts = Deno.readTextFileSync("/proc/self/mountinfo");
    this.isComplete = [folder.dir, folder.workspace].every((each) => isOfThisMachine(each, mounts));
    this.#follow().finally(() => this.#goOnBlind());
  }

  /** The guest has booted: it hears of the changes since it was started, and of later ones. */
  tell(guest: GuestAction): void {
    this.#tell = guest;
    this.#send();
  }

  close(): void {
    this.#isClosed = true;
    try {
      this.#watcher.close();
    } catch {
      // closed already
    }
  }

  async #follow(): Promise<void> {
    const events = this.#watcher[Symbol.asyncIterator]();
    for (let failures = 0; failures < FAILURES_MAX;) {
      const next: unknown = await events.next().catch((error) => error);
      if (this.#isClosed) return;
      // Deno cannot give a name that is not UTF-8 as a string.
      if (next instanceof TypeError) this.#dropsAll = true;
      else if (next instanceof Error) {
        failures++;
        // A folder cannot be watched, such as for lack of inotify watches; the others still are.
        this.#goOnBlind();
      }
      if (next instanceof Error) {
        this.#noteNew();
        this.#send();
        continue;
      }
      failures = 0;
      const { done, value } = next as IteratorResult<Deno.FsEvent>;
      if (done) return;
      // The kernel has dropped notices.
      if (value.flag === "rescan") this.#dropsAll = true;
      if (value.kind === "create" || value.kind === "rename") this.#noteNew();
      if (value.kind !== "access") { for (const path of value.paths) this.#note(path); }
      this.#send();
    }
  }

  /** Watches no further once there are too many folders: other programs of this user need watches, too. */
  #noteNew(): void {
    if (this.#watches.add()) this.#watcher.close();
  }

  /** Has the guest drop its names again and again, since some changes go unnoticed from now on. */
  async #goOnBlind(): Promise<void> {
    if (this.#isBlind || this.#isClosed) return;
    this.#isBlind = true;
    log.warn(
      `not every change of ${this.#folder.dir} wakes programs in the VM any more: it has too many folders`,
    );
    while (!this.#isClosed) {
      this.#dropsAll = true;
      await this.#send();
      await backgroundDelay(DROP_MS);
    }
  }

  #note(path: string): void {
    const { dir, name, top, workspace } = this.#folder;
    const below = relative(dir, path);
    if (isOutside(below)) {
      const other = relative(workspace, path);
      if (other !== "" && !isOutside(other)) this.#noteLook(other);
      return;
    }
    const kind = below === "" ? "masked" : kindOf(below, top);
    if (kind === "masked") return;
    const place = `${name}/${below}`;
    if (kind === "unwatched") this.#noteLook(place);
    else if (this.#waking.size < WAITING_MAX) this.#waking.add(place);
    else this.#dropsAll = true;
  }

  #noteLook(place: string): void {
    if (this.#looking.size < LOOKS_MAX) this.#looking.add(place);
    else this.#dropsAll = true;
  }

  /** Sends what waits, one message after the other. */
  async #send(): Promise<void> {
    if (this.#isSending || !this.#tell) return;
    this.#isSending = true;
    while (!this.#isClosed && (this.#dropsAll || this.#waking.size > 0 || this.#looking.size > 0)) {
      await backgroundDelay(GATHER_MS);
      try {
        await this.#sendOnce(this.#tell);
      } catch {
        // The guest may be at its limit of programs. If it has ended, its session closes this.
        this.#dropsAll = true;
        await backgroundDelay(DROP_MS);
      }
    }
    this.#isSending = false;
  }

  async #sendOnce(tell: GuestAction): Promise<void> {
    if (this.#dropsAll) {
      const wait = this.#dropped + DROP_MS - performance.now();
      if (wait > 0 && this.#waking.size === 0) await backgroundDelay(wait);
      if (wait <= 0 || this.#waking.size === 0) {
        this.#dropsAll = false;
        this.#looking.clear();
        this.#dropped = performance.now();
        await tell("look", []);
      }
    }
    const looks = take(this.#looking);
    if (looks.length > 0) await tell("look", looks);
    const wakes = take(this.#waking);
    const areNew = await Promise.all(wakes.map((path) => this.#isNew(path)));
    const changed = wakes.filter((_, at) => areNew[at]);
    if (changed.length === 0) return;
    try {
      await tell("wake", changed);
    } catch (error) {
      for (const path of changed) {
        this.#known.delete(path);
        this.#waking.add(path);
      }
      throw error;
    }
  }

  async #isNew(place: string): Promise<boolean> {
    const path = join(this.#folder.dir, place.slice(this.#folder.name.length + 1));
    const state = await Deno.lstat(path).then(
      ({ ino, size, mtime, mode }) => [ino, size, mtime?.getTime(), mode].join(" "),
      () => "gone",
    );
    if (this.#known.get(place) === state) return false;
    this.#known.delete(place);
    this.#known.set(place, state);
    if (this.#known.size > KNOWN_MAX) this.#known.delete(this.#known.keys().next().value!);
    return true;
  }
}

/** Removes the first paths of a set for one message. */
function take(paths: Set<string>): string[] {
  const taken = [...paths].slice(0, PATHS_MAX);
  for (const path of taken) paths.delete(path);
  return taken;
}

function isOutside(below: string): boolean {
  return below === ".." || below.startsWith("../");
}

/** Sorts a path: programs of the guest watch it, see it without watching, or cannot see it. */
function kindOf(below: string, top: readonly string[]): "watched" | "unwatched" | "masked" {
  const names = below.split("/");
  if (top.includes(names[0].toLowerCase()) || names.some((name) => maskOf(name) === "runs")) return "masked";
  return names.some((name) => UNWATCHED.has(name)) ? "unwatched" : "watched";
}
