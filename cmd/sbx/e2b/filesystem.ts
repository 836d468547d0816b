/** Files of a sandbox: envd's service `filesystem.Filesystem`, by programs of the guest under its rules. */
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { basename, dirname, resolve as resolvePath } from "node:path";
import type { ExecResult } from "../../../lib/client/api/mod.ts";
import {
  type EntryInfoSchema,
  type Filesystem as FilesystemService,
  type FilesystemEventSchema,
  FileType,
} from "./generated/filesystem_pb.ts";
import { connectError, type Guest, userOf } from "./guest.ts";
import { type Change, watchFolder } from "./watch.ts";

/** Deepest list of a folder. */
const DEPTH_MAX = 32;
/** Folders of one sandbox that are watched, by streams and by watchers that are asked for their events. */
const WATCHERS_MAX = 64;
/** Events that wait in one watcher, and characters of their names, which the guest chooses. */
const WAITING_MAX = 10_000, WAITING_TEXT_MAX = 1024 * 1024;

/** Exit codes of the scripts. */
const MISSING = 44, NOT_A_FOLDER = 45, EXISTS = 46;

/** GNU find's fields of an entry, each ended by NUL. */
const FORMAT = ["%y", "%Y", "%s", "%m", "%M", "%u", "%g", "%T@", "%l", "%p"].map((field) => `${field}\\0`)
  .join(
    "",
  );
const FIELDS = 10;

type Entry = MessageInitShape<typeof EntryInfoSchema>;
type Made = MessageInitShape<typeof FilesystemEventSchema>;

/** A folder to watch. */
interface WatchRequest {
  path: string;
  recursive: boolean;
  includeEntry: boolean;
}

/** A folder that is watched. */
interface WatchedFolder {
  changes: AsyncIterable<Change>;
  make(change: Change): Promise<Made>;
  /** goes on after the end of its request */
  stay(): void;
  close(): void;
}

const TYPES: Record<string, FileType> = { f: FileType.FILE, d: FileType.DIRECTORY, l: FileType.SYMLINK };

/** Entries of find's output. */
export function parseEntries(text: string): Entry[] {
  const fields = text.split("\0");
  const entries: Entry[] = [];
  for (let at = 0; at + FIELDS < fields.length; at += FIELDS) {
    const [type, followed, size, mode, permissions, owner, group, modified, link, path] = fields.slice(
      at,
      at + FIELDS,
    );
    const isLink = type === "l";
    const milliseconds = Math.floor(Number(modified) * 1000);
    entries.push({
      name: basename(path),
      type: TYPES[isLink && TYPES[followed] !== undefined ? followed : type] ?? FileType.UNSPECIFIED,
      path,
      size: BigInt(size),
      mode: parseInt(mode, 8),
      permissions,
      owner,
      group,
      modifiedTime: {
        seconds: BigInt(Math.floor(milliseconds / 1000)),
        nanos: milliseconds % 1000 * 1_000_000,
      },
      ...isLink && { symlinkTarget: resolvePath(dirname(path), link) },
    });
  }
  return entries;
}

/** The files of one sandbox. */
export class Files {
  readonly #guest: Guest;
  readonly #watchers = new Map<string, Watcher>();
  /** folders that are watched, or soon will be */
  #watched = 0;

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  close(): void {
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  readonly service: ServiceImpl<typeof FilesystemService> = {
    stat: async ({ path }, { requestHeader }) => ({ entry: await this.stat(path, userOf(requestHeader)) }),
    makeDir: async ({ path }, { requestHeader }) => {
      const user = userOf(requestHeader);
      const place = await this.#place(path, user);
      await this.#run(
        `[ -d "$1" ] && exit ${EXISTS}; [ -e "$1" ] && exit ${NOT_A_FOLDER}; exec mkdir -p -- "$1"`,
        [place],
        user,
      );
      return { entry: await this.stat(place, user) };
    },
    move: async ({ source, destination }, { requestHeader }) => {
      const user = userOf(requestHeader);
      const [from, to] = [await this.#place(source, user), await this.#place(destination, user)];
      await this.#run(
        `[ -e "$1" ] || [ -L "$1" ] || exit ${MISSING}; mkdir -p -- "$(dirname -- "$2")" && exec mv -T -- "$1" "$2"`,
        [from, to],
        user,
      );
      return { entry: await this.stat(to, user) };
    },
    listDir: async ({ path, depth }, { requestHeader }) => {
      if (depth > DEPTH_MAX) {
        throw new ConnectError(`the depth is at most ${DEPTH_MAX}`, Code.InvalidArgument);
      }
      const user = userOf(requestHeader);
      const place = await this.#place(path, user);
      const { stdout, truncated } = await this.#run(
        `[ -e "$1" ] || exit ${MISSING}; [ -d "$1" ] || exit ${NOT_A_FOLDER}; cd -- "$1" || exit 1
exec find -H "$1" -mindepth 1 -maxdepth "$2" -printf '${FORMAT}'`,
        [place, String(Math.max(1, depth))],
        user,
      );
      if (truncated) throw new ConnectError("the list is longer than 10 MiB", Code.ResourceExhausted);
      return { entries: parseEntries(stdout) };
    },
    remove: async ({ path }, { requestHeader }) => {
      const user = userOf(requestHeader);
      await this.#run(`exec rm -rf -- "$1"`, [await this.#place(path, user)], user);
      return {};
    },
    watchDir: (request, context) => this.#watch(request, context),
    createWatcher: async (request, context) => {
      const { changes, make, stay, close } = await this.#open(request, context);
      // It outlives the request that made it.
      stay();
      const watcherId = crypto.randomUUID();
      this.#watchers.set(watcherId, new Watcher(changes, { make, close }));
      return { watcherId };
    },
    getWatcherEvents: ({ watcherId }) => ({ events: this.#watcher(watcherId).take() }),
    removeWatcher: ({ watcherId }) => {
      this.#watcher(watcherId).close();
      this.#watchers.delete(watcherId);
      return {};
    },
  };

  /** @throws {ConnectError} `not_found` */
  async stat(path: string, user?: string): Promise<Entry> {
    const place = await this.#place(path, user);
    const { stdout } = await this.#run(
      `[ -e "$1" ] || [ -L "$1" ] || exit ${MISSING}; exec find "$1" -maxdepth 0 -printf '${FORMAT}'`,
      [place],
      user,
    );
    const [entry] = parseEntries(stdout);
    if (!entry) throw new ConnectError(`${path} has no entry`, Code.Internal);
    return entry;
  }

  async *#watch(request: WatchRequest, context: HandlerContext) {
    const { signal } = context;
    let watched: WatchedFolder | undefined;
    try {
      watched = await this.#open(request, context);
      yield { event: { case: "start" as const, value: {} } };
      for await (const change of watched.changes) {
        yield { event: { case: "filesystem" as const, value: await watched.make(change) } };
      }
      if (signal.aborted) throw signal.reason;
    } catch (cause) {
      throw signal.aborted ? signal.reason : connectError(cause);
    } finally {
      watched?.close();
    }
  }

  /**
   * Starts to watch a folder; the end of the request ends that, too.
   * @throws {ConnectError} too many are watched
   */
  async #open(
    { path, recursive, includeEntry }: WatchRequest,
    { signal, requestHeader }: HandlerContext,
  ): Promise<WatchedFolder> {
    const release = this.#reserve();
    const abort = new AbortController();
    const leave = () => abort.abort();
    signal.addEventListener("abort", leave);
    const stay = () => signal.removeEventListener("abort", leave);
    const close = () => {
      stay();
      abort.abort();
      release();
    };
    try {
      const user = userOf(requestHeader);
      const place = await this.#place(path, user);
      const changes = await watchFolder(this.#guest, place, { recursive, user, signal: abort.signal });
      return { changes, make: (change) => this.#event(place, change, includeEntry, user), stay, close };
    } catch (cause) {
      close();
      throw cause;
    }
  }

  /** Takes the place of one watched folder. @returns gives it back, once */
  #reserve(): () => void {
    if (this.#watched >= WATCHERS_MAX) {
      throw new ConnectError(`${WATCHERS_MAX} folders are watched`, Code.ResourceExhausted);
    }
    this.#watched++;
    let isHeld = true;
    return () => {
      if (isHeld) this.#watched--;
      isHeld = false;
    };
  }

  async #event(
    place: string,
    { name, type }: Change,
    includeEntry: boolean,
    user?: string,
  ): Promise<Made> {
    if (!includeEntry) return { name, type };
    const entry = await this.stat(`${place}/${name}`, user).catch(() => undefined);
    return { name, type, entry };
  }

  #watcher(id: string): Watcher {
    const watcher = this.#watchers.get(id);
    if (watcher) return watcher;
    throw new ConnectError(`watcher ${id} not found`, Code.NotFound);
  }

  /** Its path, without a `-` in front that a program takes for an option. */
  async #place(path: string, user?: string): Promise<string> {
    return resolvePath("/", await this.#guest.resolve(path, user));
  }

  /** @throws {ConnectError} for exit codes other than 0 */
  async #run(script: string, args: string[], user?: string): Promise<ExecResult> {
    let result: ExecResult;
    try {
      result = await this.#guest.run(script, args, user);
    } catch (cause) {
      throw connectError(cause);
    }
    const { exit_code, stderr } = result;
    if (exit_code === 0) return result;
    const [code, text] = failureOf(exit_code, args[0], stderr.trim());
    throw new ConnectError(text, code);
  }
}

function failureOf(exitCode: number, path: string, stderr: string): [Code, string] {
  switch (exitCode) {
    case MISSING:
      return [Code.NotFound, `path not found: ${path}`];
    case NOT_A_FOLDER:
      return [Code.InvalidArgument, `path is not a directory: ${path}`];
    case EXISTS:
      return [Code.AlreadyExists, `directory already exists: ${path}`];
    case 126:
    case 127:
      return [Code.PermissionDenied, stderr || "the program of the guest was refused"];
  }
  const isDenied = /permission denied/i.test(stderr);
  return [isDenied ? Code.PermissionDenied : Code.Internal, stderr || `exit code ${exitCode}`];
}

/** Events that wait until a client asks for them. */
class Watcher {
  #events: Made[] = [];
  #size = 0;
  #failure?: unknown;
  readonly #close: () => void;

  constructor(changes: AsyncIterable<Change>, { make, close }: Pick<WatchedFolder, "make" | "close">) {
    this.#close = close;
    void (async () => {
      for await (const change of changes) {
        this.#size += change.name.length;
        if (this.#events.length >= WAITING_MAX || this.#size > WAITING_TEXT_MAX) {
          throw new ConnectError("too many events waited", Code.ResourceExhausted);
        }
        this.#events.push(await make(change));
      }
    })().catch((cause) => {
      this.#failure = cause;
      this.close();
    });
  }

  /** @throws {ConnectError} it watches no more, and its last events were taken */
  take(): Made[] {
    const events = this.#events;
    this.#events = [];
    this.#size = 0;
    if (events.length === 0 && this.#failure) throw connectError(this.#failure);
    return events;
  }

  close(): void {
    this.#close();
  }
}
