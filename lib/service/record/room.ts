/**
 * Room of all records together: which go when they take too much, in which order, and what keeps the others
 * (docs/design/contracts/12-ledger.md §12, "Retention").
 */
import { isAbsolute, join } from "node:path";
import { diskUse } from "../../base/disk/mod.ts";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { formatBytes } from "../../base/progress/mod.ts";
import { count } from "../../base/text/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { SessionEntry } from "../../ledger/read/mod.ts";
import { sessionPaths } from "../../session/mod.ts";
import {
  binnedOf,
  type RemovalParts,
  removeRecord,
  requireReleased,
  requireRemovable,
  RETENTION,
} from "./removal.ts";
import type { Sessions } from "./sessions.ts";

const MAX = "ledger.max_total_mb", ORDER = "ledger.remove_first", EXPORT = "ledger.export_dir";
const MIB = 1024 ** 2;
const DAY_MS = 24 * 3600 * 1000;

export interface RoomParts extends RemovalParts {
  home: Home;
  settings: Pick<SettingsStore, "resolved" | "inForce">;
  sessions: Pick<Sessions, "get" | "isCollected" | "remove" | "list">;
}

/** A record that goes. */
export interface GoingRecord {
  id: string;
  /** of its VM */
  name: string;
  bytes: number;
  ended_at: string;
  /** `retention`: it is older than the home keeps; `room`: records take too much room */
  reason: "retention" | "room";
}

/** A record that would go, and stays. */
export interface KeptRecord {
  id: string;
  name: string;
  bytes: number;
  /** code of the error that keeps it */
  code: string;
  why: string;
}

/** Files that a collection removes, or has removed. */
export interface RecordCollection {
  /** that all records take, before */
  bytes: number;
  /** that they may take; 0: any number */
  max_bytes: number;
  removed: GoingRecord[];
  kept: KeptRecord[];
}

/** Records of one home, within the room that they may take. */
export class RecordRoom {
  readonly #parts: RoomParts;
  /** problem of the last collection */
  #problem?: string;
  /** ids of records that stay until they can be copied, with the reason */
  readonly #unexported = new Map<string, string>();
  #bytes = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: RoomParts) {
    this.#parts = parts;
  }

  /** Records over the limit, or to be removed, that stay. */
  problems(): string[] {
    const [why] = this.#unexported.values();
    return [
      ...this.#problem === undefined ? [] : [this.#problem],
      ...why === undefined
        ? []
        : [`${count(this.#unexported.size, "record")} cannot be removed before a copy is made: ${why}`],
    ];
  }

  /** Room that all records took when they were last measured, and may take. */
  get use(): { records_bytes: number; records_max_bytes: number } {
    return { records_bytes: this.#bytes, records_max_bytes: this.#max };
  }

  get #max(): number {
    return Number(this.#parts.settings.inForce(MAX) ?? 0) * MIB;
  }

  /** Records that corp holds or keeps, or that its collectors lack. */
  async kept(now = Date.now()): Promise<{ id: string; name: string; why: string }[]> {
    const kept: { id: string; name: string; why: string }[] = [];
    for (const entry of await this.#parts.sessions.list(Number.MAX_SAFE_INTEGER)) {
      try {
        await requireReleased(this.#parts, entry, now);
      } catch (cause) {
        const { id, name } = entry;
        kept.push({ id, name, why: asSbxError(cause, `checking session ${id}`).message });
      }
    }
    return kept;
  }

  /**
   * Records that a collection would remove, in its order.
   * @param expired also the ones that are older than the home keeps
   */
  async plan(expired: boolean, now = Date.now()): Promise<RecordCollection> {
    const { home, settings, sessions, bin } = this.#parts;
    const entries = await sessions.list(Number.MAX_SAFE_INTEGER);
    const counted = new Set<string>();
    const sized: { entry: SessionEntry; bytes: number }[] = [];
    for (const entry of entries) {
      sized.push({ entry, bytes: await diskUse(ledgerDir(home, entry.id), counted) });
    }
    this.#bytes = await diskUse(join(home.dir, "ledgers")).catch(() => 0);
    const plan: RecordCollection = { bytes: this.#bytes, max_bytes: this.#max, removed: [], kept: [] };
    const days = settings.inForce(RETENTION);
    const last = expired && typeof days === "number" ? now - days * DAY_MS : -Infinity;
    const binned = await binnedOf(bin);
    let left = plan.bytes;
    for (const { entry, bytes } of sized.sort(orderOf(settings.inForce(ORDER)))) {
      const { id, name, ended_at } = entry;
      if (bytes === 0) continue;
      const isExpired = ended_at !== undefined && Date.parse(ended_at) < last;
      if (!isExpired && (plan.max_bytes === 0 || left <= plan.max_bytes)) continue;
      try {
        await requireRemovable(this.#parts, entry, binned, now);
      } catch (cause) {
        const { code, message } = asSbxError(cause, `checking session ${id}`);
        plan.kept.push({ id, name, bytes, code, why: message });
        continue;
      }
      left -= bytes;
      const ended = ended_at ?? entry.created_at;
      plan.removed.push({ id, name, bytes, ended_at: ended, reason: isExpired ? "retention" : "room" });
    }
    // Within the limit, the VMs that exist keep nothing from going.
    if (plan.max_bytes === 0 || left <= plan.max_bytes) {
      plan.kept = plan.kept.filter(({ code }) => code !== "session.in_use");
    }
    return plan;
  }

  /**
   * Removes the records of {@linkcode plan}, each after its export where there is a folder for it;
   * one collection after the other.
   */
  collect(expired: boolean, now = Date.now()): Promise<RecordCollection> {
    const done = this.#last.then(() => this.#collect(expired, now));
    this.#last = done.catch(ignore("the caller has the failure; the next collection goes on"));
    return done;
  }

  async #collect(expired: boolean, now: number): Promise<RecordCollection> {
    const plan = await this.plan(expired, now);
    const done: RecordCollection = { ...plan, removed: [] };
    for (const going of plan.removed) {
      const { id, name, bytes, reason } = going;
      try {
        await this.exportFirst(id);
        const entry = await this.#parts.sessions.get(id);
        if (!entry) continue;
        // Copies take their time: corp may hold the record since.
        await requireReleased(this.#parts, entry, now);
        await removeRecord(this.#parts, entry, { reason });
        done.removed.push(going);
        this.#bytes -= bytes;
      } catch (cause) {
        const { code, message } = asSbxError(cause, `removing the record of session ${id}`);
        done.kept.push({ id, name, bytes, code, why: message });
      }
    }
    if (done.removed.length > 0) {
      log.info(`removed ${count(done.removed.length, "record")} of ended sessions: ${MAX}, ${RETENTION}`);
    }
    this.#problem = problemOf(done, this.#bytes);
    return done;
  }

  /** Copies a record to the folder of the settings, if they name one. @throws {SbxError} `session.export` */
  async exportFirst(id: string): Promise<void> {
    const dir = this.#parts.settings.inForce(EXPORT);
    try {
      if (typeof dir === "string" && dir !== "") await this.#exportTo(dir, id);
      this.#unexported.delete(id);
    } catch (error) {
      this.#unexported.set(id, (error as Error).message);
      throw error;
    }
  }

  async #exportTo(dir: string, id: string): Promise<void> {
    if (!isAbsolute(dir)) {
      throw new SbxError("session.export", `${EXPORT} is "${dir}", which is not an absolute path`, {
        hint: `sbx settings set ${EXPORT} /srv/records`,
      });
    }
    const { exportRecord } = await import("../../ledger/read/mod.ts");
    await exportRecord(sessionPaths(this.#parts.home, id).ledger, id, dir);
  }
}

function ledgerDir(home: Home, id: string): string {
  return join(home.dir, "ledgers", id);
}

type Sized = { entry: SessionEntry; bytes: number };

/** Order of removal: sessions that ended first, or the largest records, first. Ones that run come last. */
function orderOf(order: unknown): (a: Sized, b: Sized) => number {
  const end = ({ entry }: Sized) => entry.ended_at ?? "~";
  if (order === "largest") return (a, b) => b.bytes - a.bytes;
  return (a, b) => end(a) < end(b) ? -1 : end(a) > end(b) ? 1 : 0;
}

/** Words for the reasons that keep records. */
const REASONS: Record<string, string> = {
  "corp.hold": "held by corp",
  "corp.retention": "kept by corp's retention",
  "session.not_sent": "not sent to corp's collectors yet",
  "session.in_use": "of VMs that exist or can be restored",
  "session.export": "not exported",
};

function problemOf({ max_bytes, kept }: RecordCollection, bytes: number): string | undefined {
  if (max_bytes === 0 || bytes <= max_bytes) return undefined;
  const reasons = Map.groupBy(kept, ({ code, why }) => REASONS[code] ?? why);
  const list = [...reasons].map(([reason, of]) => `${of.length} ${reason}`).join(", ");
  return `records take ${formatBytes(bytes)}, more than the ${formatBytes(max_bytes)} of ${MAX}: ` +
    `${list || "no session has ended"} (sbx gc --dry-run lists them)`;
}
