/** Snapshots of every VM's workspace: on request, on a schedule, and before a restore. */
import {
  CHANGES_MAX,
  type SnapshotDiff,
  type SnapshotInfo,
  type SnapshotRestored,
  type SnapshotUndo,
} from "../../client/api/mod.ts";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { userName } from "../../base/user/mod.ts";
import { backgroundInterval } from "../../base/time/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { readWhy } from "../../ledger/read/mod.ts";
import { snapshotLimits } from "../../home/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import {
  type Change,
  eventOf,
  isSnapshotId,
  type Restored,
  SnapshotStore,
  type SnapshotUser,
  toText,
  viewOf,
} from "../../machine/snapshot/mod.ts";
import type { Registry } from "../vm/registry.ts";
import type { HostRecords } from "../record/host_record.ts";
import type { Vm } from "../vm/vm.ts";
import { awaitFiles } from "../vm/vm_files.ts";
import { relativePath } from "./workspace.ts";

/** `ms` between looks for VMs whose automatic snapshot is due. */
const LOOK_MS = 10_000;
/** Who makes the automatic ones. */
const BY_SERVICE = { client: "sbx-service" };
/** Reason of a snapshot before a restore. */
const BEFORE_RESTORE = "before a restore";

/** Snapshots of every VM's workspace: by hand, by the clock, and the way back. */
export class Snapshots {
  readonly #settings: SettingsStore;
  readonly #registry: Registry;
  readonly #records: Pick<HostRecords, "observe">;
  /** when each VM was last looked at, by its id, in unix ms */
  readonly #lastLook = new Map<string, number>();
  #isLooking = false;

  constructor(
    { settings, registry, records }: {
      settings: SettingsStore;
      registry: Registry;
      records: Pick<HostRecords, "observe">;
    },
  ) {
    this.#records = records;
    this.#settings = settings;
    this.#registry = registry;
  }

  /** Oldest first. */
  list(vm: Vm): Promise<SnapshotInfo[]> {
    return storeOf(vm).list();
  }

  /** @throws {SbxError} `snapshot.limit`, `disk.full`, `snapshot.too_large` */
  async create(vm: Vm, label?: string, mover = BY_SERVICE): Promise<SnapshotInfo> {
    const made = await storeOf(vm).create({ kind: "manual", label, limits: snapshotLimits(this.#settings) });
    await this.#records.observe(vm, eventOf(made!, userOf(mover)));
    return made!;
  }

  /**
   * Takes an automatic snapshot, if the workspace changed since the newest one: before work that a person may
   * want undone, such as an agent's turn. Never fails: the work must not depend on it.
   *
   * @param reason for people, such as `before a turn of the agent`
   * @returns undefined: nothing changed, or it failed, which is logged
   */
  async protect(vm: Vm, reason: string, mover = BY_SERVICE): Promise<SnapshotInfo | undefined> {
    if (this.#settings.inForce("vm.snapshots.enabled") === false) return undefined;
    try {
      const made = await storeOf(vm).create({
        kind: "auto",
        label: reason,
        limits: snapshotLimits(this.#settings),
      });
      if (made) await this.#records.observe(vm, eventOf(made, userOf(mover)));
      return made;
    } catch (error) {
      log.warn(`no snapshot of "${vm.record.name}": ${asSbxError(error, "the snapshot").message}`);
      return undefined;
    }
  }

  /** Changes from a snapshot to another one, or to the current workspace. */
  async diff(vm: Vm, from: string, to?: string): Promise<SnapshotDiff> {
    return viewsOf(await storeOf(vm).diff(from, to));
  }

  /** Puts files back. A running guest sees them when this returns. */
  async restore(vm: Vm, id: string, paths?: string[], mover = BY_SERVICE): Promise<SnapshotRestored> {
    const store = storeOf(vm);
    const request = { kind: "auto" as const, label: BEFORE_RESTORE, limits: snapshotLimits(this.#settings) };
    const snapshot = await infoOf(store, id);
    const restored = await store.restore(id, { ...request, paths: paths?.map(relativePath) });
    await this.#records.observe(vm, eventOf(snapshot, userOf(mover), restored));
    await awaitFiles(vm, restored.changes);
    return { snapshot, before: restored.before, ...viewsOf(restored.changes), failed: failuresOf(restored) };
  }

  /** Restores files to before a time or an event, or to the newest snapshot that differs from them. */
  async undo(
    vm: Vm,
    { to, before_unix_ms, paths, dry_run }: SnapshotUndo,
    mover = BY_SERVICE,
  ): Promise<SnapshotRestored> {
    const snapshot = await this.#target(vm, to, before_unix_ms);
    if (!dry_run) return await this.restore(vm, snapshot.id, paths, mover);
    const changes = await storeOf(vm).preview(snapshot.id, paths?.map(relativePath));
    return { snapshot, ...viewsOf(changes), failed: [] };
  }

  async remove(vm: Vm, id: string): Promise<void> {
    await storeOf(vm).remove(id);
  }

  /** Begins to take snapshots by the clock. */
  begin(): void {
    backgroundInterval(() => void this.look(), LOOK_MS);
  }

  /** Takes the snapshots that are due, one VM after the other. */
  async look(now = Date.now()): Promise<void> {
    const seconds = this.#settings.inForce("vm.snapshots.auto_interval");
    if (this.#isLooking || typeof seconds !== "number") return;
    this.#isLooking = true;
    try {
      for (const vm of this.#registry.alive()) {
        const { id, parent } = vm.record;
        const last = this.#lastLook.get(id) ?? Date.parse(vm.record.created_at);
        if (parent || vm.state.state !== "Running" || now - last < seconds * 1000) continue;
        this.#lastLook.set(id, now);
        await this.protect(vm, `every ${seconds} s`);
      }
    } finally {
      this.#isLooking = false;
    }
  }

  async #target(vm: Vm, to: string | undefined, before?: number): Promise<SnapshotInfo> {
    const store = storeOf(vm);
    if (to !== undefined && before !== undefined) {
      throw new SbxError("request.invalid", "to and before_unix_ms cannot be combined", {
        hint: "give one of them",
      });
    }
    if (to !== undefined && isSnapshotId(to)) return await infoOf(store, to);
    const infos = await store.list();
    const time = to === undefined ? before : await timeOf(vm, to);
    const found = time === undefined
      ? await store.newestOther()
      : infos.findLast(({ created_unix_ms }) => created_unix_ms <= time);
    if (found) return found;
    throw noSnapshot(vm, infos, time);
  }
}

function userOf({ client }: { client: string }): SnapshotUser {
  return { client, user: userName() };
}

function storeOf({ paths }: Vm): SnapshotStore {
  return new SnapshotStore(paths.snapshots, paths.workspace);
}

async function infoOf(store: SnapshotStore, id: string): Promise<SnapshotInfo> {
  const infos = await store.list();
  const info = infos.find((each) => each.id === id);
  if (info) return info;
  throw new SbxError("snapshot.not_found", `no snapshot "${id}"`, {
    hint: didYouMean(id, infos.map((each) => each.id)) ?? "sbx snapshots list NAME shows them",
  });
}

/** Time of an event of the VM, in unix ms. @throws {SbxError} `event.not_found` */
async function timeOf({ paths }: Vm, eventId: string): Promise<number> {
  const { event } = await readWhy(paths.ledger, eventId);
  return event.common.timestamp_unix_ms;
}

function noSnapshot({ record }: Vm, infos: SnapshotInfo[], time: number | undefined): SbxError {
  const oldest = infos[0] && new Date(infos[0].created_unix_ms).toISOString();
  if (!oldest) {
    return new SbxError("snapshot.not_found", `"${record.name}" has no snapshots`, {
      hint: "sbx snapshots create NAME makes one; vm.snapshots.enabled has them made automatically",
    });
  }
  return new SbxError(
    "snapshot.not_found",
    time === undefined
      ? `the workspace of "${record.name}" is as all of its snapshots have it`
      : `"${record.name}" has no snapshot before ${new Date(time).toISOString()}; its oldest is of ${oldest}`,
    { hint: "sbx snapshots list NAME shows them" },
  );
}

function viewsOf(changes: Change[]): SnapshotDiff {
  return { changes: changes.slice(0, CHANGES_MAX).map(viewOf), changes_count: changes.length };
}

function failuresOf({ failed }: Restored) {
  return failed.map(({ path, why }) => ({ path: toText(path), why }));
}
