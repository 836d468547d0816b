/** Snapshots of a VM's workspace on disk: make, list, compare and restore. */
import { join } from "node:path";
import { CallError } from "../../../ffi/libc/descriptor.ts";
import { openFolder } from "../../../ffi/host/files.ts";
import type { Folder } from "../../../ffi/host/handle.ts";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { lockWithin } from "../../base/home/mod.ts";
import { type Capture, capture, leftOutOf } from "./capture.ts";
import { type Change, diff, differs } from "./diff.ts";
import { type BytePath, type Entry, fromText, toText } from "./entry.ts";
import {
  collectObjects,
  isSnapshotId,
  newSnapshotId,
  readInfo,
  readManifest,
  writeManifest,
} from "./manifest.ts";
import type { SnapshotChange, SnapshotInfo } from "./schema.ts";
import { Objects } from "./objects.ts";
import { Pace } from "./pace.ts";
import { apply, type Failure } from "./restore.ts";
import { GUEST_WORKSPACE } from "../../event/mod.ts";

/** Longest wait for another snapshot of the same VM, in `ms`. */
const LOCK_MS = 60_000;
/**
 * `bytes` that a snapshot leaves free on its disk (docs/design/contracts/14-limits.md §14): VMs that cannot
 * write their record stop.
 */
const KEPT_BYTES = 512 * 1024 * 1024;
const SUFFIX = ".manifest";

/**
 * Most snapshots of each kind: of the host's, and as many of the guest's, which push out none of the others.
 */
export interface SnapshotLimits {
  auto: number;
  manual: number;
}

export interface SnapshotRequest {
  kind: SnapshotInfo["kind"];
  label?: string;
  actor?: SnapshotInfo["actor"];
  limits: SnapshotLimits;
}

/** The result of a restore. */
export interface Restored {
  /** the state before, to go back to */
  before: SnapshotInfo;
  changes: Change[];
  failed: Failure[];
}

/**
 * Snapshots of one workspace (docs/design/contracts/02-http.md §2, "Snapshots"). Processes that use the same
 * store take turns. A store whose process is killed at any moment holds every snapshot that was complete.
 */
export class SnapshotStore {
  readonly #dir: string;
  readonly #workspace: string;
  readonly #keep: number;

  /**
   * @param dir the store's own folder, closed to other users and to the guest
   * @param keep `bytes` to leave free on the disk
   */
  constructor(dir: string, workspace: string, keep = KEPT_BYTES) {
    this.#dir = dir;
    this.#workspace = workspace;
    this.#keep = keep;
  }

  /** Oldest first. A damaged manifest is left out. */
  async list(): Promise<SnapshotInfo[]> {
    const infos = await Promise.all(
      (await this.#ids()).map((id) => readInfo(this.#path(id)).catch(() => undefined)),
    );
    return infos.filter((info) => info !== undefined).sort(byAge);
  }

  /**
   * Makes a snapshot.
   *
   * @returns undefined: an automatic one of a workspace that equals the newest snapshot
   * @throws {SbxError} `snapshot.limit`, `disk.full`, `snapshot.too_large`, `snapshot.busy`
   */
  async create(request: SnapshotRequest): Promise<SnapshotInfo | undefined> {
    return await this.#exclusive(async (work) => {
      const infos = await this.list();
      if (request.kind === "manual") requireManualRoom(infos, request);
      const { now, newest } = await work.capture(infos, true);
      if (request.kind === "auto" && newest && !differs(now.entries, newest.entries)) return undefined;
      return await this.#write(now, request, work);
    });
  }

  /**
   * What turns one snapshot into another, or into the workspace of now.
   * @throws {SbxError} `snapshot.not_found`
   */
  async diff(from: string, to?: string, paths?: string[]): Promise<Change[]> {
    const pace = new Pace();
    const wanted = paths?.map(fromText);
    const before = (await this.#read(from, pace)).entries;
    if (to !== undefined) return diff(before, (await this.#read(to, pace)).entries, wanted);
    return await this.#exclusive(async (work) => {
      const { now } = await work.capture(await this.list(), false);
      return diff(before, now.entries, wanted);
    });
  }

  /** What {@linkcode restore} would change. @throws {SbxError} `snapshot.not_found` */
  async preview(id: string, paths?: string[]): Promise<Change[]> {
    return await this.#exclusive(async (work) => {
      const { now } = await work.capture(await this.list(), false);
      return diff(now.entries, (await this.#read(id, work.pace)).entries, paths?.map(fromText));
    });
  }

  /** The newest snapshot that differs from the current workspace. */
  async newestOther(): Promise<SnapshotInfo | undefined> {
    return await this.#exclusive(async (work) => {
      const infos = await this.list();
      const { now } = await work.capture(infos, false);
      for (const info of infos.toReversed()) {
        const { entries } = await this.#read(info.id, work.pace);
        if (diff(now.entries, entries).length > 0) return info;
      }
      return undefined;
    });
  }

  /**
   * Restores the workspace, or some of its paths, to a snapshot. The current state becomes a snapshot first,
   * so that every restore can be undone. Each file is replaced whole; failed files are named, and the rest is
   * restored.
   *
   * @param paths relative to the workspace
   * @throws {SbxError} `snapshot.not_found`, `snapshot.damaged`, `disk.full`: nothing was changed
   */
  async restore(
    id: string,
    { paths, ...request }: SnapshotRequest & { paths?: string[] },
  ): Promise<Restored> {
    return await this.#exclusive(async (work) => {
      const target = await this.#read(id, work.pace);
      const infos = await this.list();
      const { now, newest, newestInfo } = await work.capture(infos, true);
      const isKnown = newest && !differs(now.entries, newest.entries);
      const before = isKnown ? newestInfo! : await this.#write(now, { ...request, kind: "auto" }, work, [id]);
      const changes = diff(now.entries, target.entries, paths?.map(fromText));
      const failed = await apply(changes, now.entries, work);
      return { before, changes, failed };
    });
  }

  /** @throws {SbxError} `snapshot.not_found` */
  async remove(id: string): Promise<void> {
    await this.#exclusive(async ({ objects, pace }) => {
      await this.#requireId(id);
      await Deno.remove(this.#path(id));
      await this.#sweep(objects, pace);
    });
  }

  /** Removes contents that no snapshot needs, such as an interrupted capture's. @returns their number */
  async sweep(): Promise<number> {
    return await this.#exclusive(({ objects, pace }) => this.#sweep(objects, pace));
  }

  /** Writes a manifest, and removes the oldest automatic ones beyond the limit, except `keep`. */
  async #write(
    now: Capture,
    request: SnapshotRequest,
    work: Work,
    keep: string[] = [],
  ): Promise<SnapshotInfo> {
    const { kind, label, actor = "host", limits } = request;
    const id = newSnapshotId();
    const info = await writeManifest(
      this.#path(id),
      {
        id,
        kind,
        ...(label !== undefined && { label }),
        actor,
        created_unix_ms: now.started_unix_ms,
        ...countsOf(now),
      },
      now.entries.values(),
      work.pace,
    );
    if (kind === "auto") {
      const auto = (await this.list()).filter((each) =>
        each.kind === "auto" && each.actor === actor && !keep.includes(each.id)
      );
      const old = auto.slice(0, Math.max(0, auto.length - limits.auto)).filter((each) => each.id !== id);
      for (const each of old) await Deno.remove(this.#path(each.id));
      if (old.length > 0) await this.#sweep(work.objects, work.pace);
    }
    return info;
  }

  /** Works alone on the store. */
  async #exclusive<T>(action: (work: Work) => Promise<T>): Promise<T> {
    const objectsDir = join(this.#dir, "objects");
    // Not those above it: a VM that was deleted meanwhile stays deleted.
    await Deno.mkdir(objectsDir, { mode: 0o700 }).catch((error) => {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw asSbxError(error, "the snapshot");
    });
    using lock = await Deno.open(join(this.#dir, "lock"), { write: true, create: true, mode: 0o600 });
    if (!await lockWithin(lock, LOCK_MS)) {
      throw new SbxError("snapshot.busy", "another snapshot of this VM is under way", {
        hint: "try again in a moment",
      });
    }
    using objects = new Objects(objectsDir);
    using workspace = openFolder(this.#workspace);
    const pace = new Pace();
    try {
      return await action({
        objects,
        workspace,
        pace,
        capture: (infos, store) => this.#capture({ objects, workspace, pace }, infos, store),
      });
    } catch (error) {
      // Contents without a manifest; a full disk needs their room most.
      await this.#sweep(objects, pace).catch(ignore("the next snapshot sweeps again"));
      throw errorOf(error);
    }
  }

  async #capture(parts: Omit<Work, "capture">, infos: SnapshotInfo[], store: boolean) {
    const newestInfo = infos.at(-1);
    // A damaged one costs time: everything is read again.
    const newest = newestInfo &&
      await readManifest(this.#path(newestInfo.id), parts.pace).catch(() => undefined);
    const now = await capture({
      ...parts,
      previous: newest && { entries: newest.entries, started_unix_ms: newest.info.created_unix_ms },
      store,
      disk: { path: this.#dir, keep: this.#keep },
    });
    return { now, newest, newestInfo };
  }

  async #sweep(objects: Objects, pace: Pace): Promise<number> {
    const used = new Set<string>();
    // A manifest that cannot be read ends this: its contents are not known.
    for (const id of await this.#ids()) await collectObjects(this.#path(id), used, pace);
    return await objects.sweep(used, pace);
  }

  async #read(id: string, pace: Pace) {
    await this.#requireId(id);
    return await readManifest(this.#path(id), pace);
  }

  async #requireId(id: string): Promise<void> {
    if (isSnapshotId(id) && await Deno.stat(this.#path(id)).then(() => true, () => false)) return;
    throw new SbxError("snapshot.not_found", `no snapshot "${id}"`, {
      hint: "sbx snapshots list NAME shows them",
    });
  }

  async #ids(): Promise<string[]> {
    const names = await Array.fromAsync(Deno.readDir(this.#dir), ({ name }) => name).catch(() => []);
    return names.filter((name) => name.endsWith(SUFFIX)).map((name) => name.slice(0, -SUFFIX.length))
      .filter(isSnapshotId);
  }

  #path(id: string): string {
    return join(this.#dir, id + SUFFIX);
  }
}

/** Parts of one exclusive work on a store. */
export interface Work {
  objects: Objects;
  workspace: Folder;
  pace: Pace;
  capture(infos: SnapshotInfo[], store: boolean): Promise<{
    now: Capture;
    newest?: { entries: Map<BytePath, Entry> };
    newestInfo?: SnapshotInfo;
  }>;
}

function requireManualRoom(
  infos: SnapshotInfo[],
  { actor = "host", limits: { manual } }: SnapshotRequest,
): void {
  if (infos.filter((info) => info.kind === "manual" && info.actor === actor).length < manual) return;
  throw new SbxError(
    "snapshot.limit",
    `this VM has ${manual} manual snapshots of its ${actor}, the limit of vm.snapshots.manual_max`,
    { hint: "remove one, or raise vm.snapshots.manual_max" },
  );
}

function errorOf(error: unknown): SbxError {
  if (error instanceof CallError && (error.code === "ENOSPC" || error.code === "EDQUOT")) {
    return new SbxError("disk.full", "the snapshot did not fit on the disk; nothing of it was kept", {
      cause: error,
      hint: "free some space, or remove snapshots: sbx snapshots delete NAME ID",
    });
  }
  return asSbxError(error, "the snapshot");
}

/** Most entries of a snapshot's `left_out`. */
const LEFT_OUT_SHOWN = 20;

/** Entry counts in a snapshot's info. */
function countsOf({ entries, changing }: Capture) {
  const counts = { file: 0, folder: 0, link: 0, other: 0 };
  let bytes = 0;
  for (const { type, size } of entries.values()) {
    counts[type]++;
    if (type === "file") bytes += size;
  }
  return {
    files: counts.file,
    folders: counts.folder,
    links: counts.link,
    bytes,
    left_out: leftOutOf(entries.values(), LEFT_OUT_SHOWN),
    left_out_count: counts.other,
    changing,
  };
}

/** Sorts snapshots, the oldest first. */
function byAge(a: SnapshotInfo, b: SnapshotInfo): number {
  return a.created_unix_ms - b.created_unix_ms || (a.id < b.id ? -1 : 1);
}

/** A difference as the API shows it. */
export function viewOf({ path, change, before, after }: Change): SnapshotChange {
  return {
    path: toText(path),
    change,
    type: (after ?? before)!.type,
    ...(before?.type === "file" && { size_before: before.size }),
    ...(after?.type === "file" && { size_after: after.size }),
  };
}

/** Who makes or restores a snapshot; `user` of the host, unless the guest does. */
export interface SnapshotUser {
  client: string;
  user?: string;
}

/**
 * The event fields of a snapshot (`export`) or of a restore (`import`) (docs/design/contracts/02-http.md §2,
 * "Snapshots").
 */
export function eventOf(snapshot: SnapshotInfo, { client, user }: SnapshotUser, restored?: Restored) {
  return {
    operation: restored ? "import" as const : "export" as const,
    path: GUEST_WORKSPACE,
    byte_count: restored
      ? restored.changes.reduce((sum, { after }) => sum + (after?.type === "file" ? after.size : 0), 0)
      : snapshot.bytes,
    labels: {
      snapshot: snapshot.id,
      blake3: snapshot.blake3,
      client,
      ...(user !== undefined && { user }),
      ...(snapshot.label !== undefined && { snapshot_label: snapshot.label }),
      ...(restored && {
        snapshot_before: restored.before.id,
        changes: String(restored.changes.length),
        failed: String(restored.failed.length),
      }),
    },
  };
}
