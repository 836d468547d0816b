/**
 * Removal of records by a person, within the limits of corp
 * (docs/design/contracts/12-ledger.md §12, "Retention").
 */
import { SbxError } from "../../base/error/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { Removal } from "../../fleet/register/mod.ts";
import type { SessionEntry } from "../../ledger/read/mod.ts";
import type { AnsweredBy } from "../../policy/mod.ts";
import type { Bin } from "../vm/bin.ts";
import type { Registry } from "../vm/registry.ts";
import type { EventFeeds } from "./event_feed.ts";
import type { FleetShipping } from "./fleet_shipping.ts";
import type { Sessions } from "./sessions.ts";

const DAY_MS = 24 * 3600 * 1000;
export const RETENTION = "vm.resources.retention_days";

/** Parts of the service that a removal asks. */
export interface RemovalParts {
  corp: Pick<CorpStore, "state">;
  settings: Pick<SettingsStore, "resolved">;
  registry: Pick<Registry, "all">;
  bin: Pick<Bin, "list">;
  sessions: Pick<Sessions, "get" | "isCollected" | "remove">;
  fleet: Pick<FleetShipping, "release" | "isSent">;
  feeds: Pick<EventFeeds, "release" | "isSent">;
}

/** Profile of a session whose index was lost, and whose ledger cannot be read. */
const UNKNOWN = "unknown";

/**
 * True if corp holds a record, or could: while corp.toml cannot be read, every one is held, and a record
 * whose user or profile is not known, as after the loss of the index, with the ones of any user or profile.
 */
export function isHeld(
  state: CorpStore["state"],
  { id, profile_id, user }: Pick<SessionEntry, "id"> & Partial<SessionEntry>,
): boolean {
  if (state.status === "closed") return true;
  const hold = "config" in state ? state.config.file.corp.records?.hold : undefined;
  const isProfileKnown = profile_id !== undefined && profile_id !== UNKNOWN;
  return hold?.some((each) =>
    ["all", `session:${id}`, `profile:${profile_id}`, `user:${user}`].includes(each) ||
    !isProfileKnown && each.startsWith("profile:") || user === undefined && each.startsWith("user:")
  ) ?? false;
}

/**
 * Days that corp keeps records: 0 where it says nothing, and all days where it switches their removal off.
 */
function daysOfCorp(state: CorpStore["state"], settings: RemovalParts["settings"]): number {
  const own = "config" in state ? state.config.file.settings[RETENTION] : undefined;
  // It needs no value for that, without which a setting is not locked.
  if (own?.enabled === false) return Infinity;
  const retention = settings.resolved.byId.get(RETENTION);
  if (!retention?.corp_locked) return 0;
  return retention.enabled ? Number(retention.effective_value) : Infinity;
}

/**
 * Checks that a record may go: its VM is gone, corp neither holds nor keeps it, and
 * its collectors have all of it.
 *
 * @param binned ids of the VMs that can be restored
 * @throws {SbxError} `session.in_use`, `session.not_sent`, `corp.hold`, `corp.retention`
 */
export async function requireRemovable(
  parts: RemovalParts,
  entry: SessionEntry,
  binned: ReadonlySet<string>,
  now = Date.now(),
): Promise<void> {
  const { id } = entry;
  const vm = parts.registry.all().find(({ record }) => record.id === id)?.record.name;
  if (vm !== undefined) {
    throw new SbxError("session.in_use", `session ${id} is of the VM "${vm}"`, {
      hint: `delete the VM first: sbx delete ${vm}`,
    });
  }
  if (binned.has(id)) {
    throw new SbxError("session.in_use", `the VM "${entry.name}" of session ${id} can still be restored`, {
      hint: "remove deleted VMs for good first: sbx purge --deleted",
    });
  }
  await requireReleased(parts, entry, now);
}

/**
 * Checks that corp neither holds nor keeps a record, and that its collectors have all of it.
 *
 * @throws {SbxError} `session.not_sent`, `corp.hold`, `corp.retention`
 */
export async function requireReleased(
  { corp, settings, sessions, fleet, feeds }: Omit<RemovalParts, "registry" | "bin">,
  entry: SessionEntry,
  now = Date.now(),
): Promise<void> {
  const { id } = entry;
  if (isHeld(corp.state, entry)) {
    throw new SbxError("corp.hold", `corp holds the record of session ${id}`, {
      hint: "sbx corp info shows corp's entries; ask your administrator",
    });
  }
  const days = daysOfCorp(corp.state, settings);
  if (days > 0 && (!entry.ended_at || now - Date.parse(entry.ended_at) < days * DAY_MS)) {
    throw new SbxError(
      "corp.retention",
      days === Infinity
        ? `corp keeps all records, and so the one of session ${id}`
        : `corp keeps records ${days} days, and session ${id} is not as old`,
      {
        hint: `sbx settings explain ${RETENTION} shows where it is set`,
      },
    );
  }
  if (!await sessions.isCollected(id) || !await fleet.isSent(id) || !await feeds.isSent(id)) {
    throw notSent(id);
  }
}

function notSent(id: string): SbxError {
  return new SbxError("session.not_sent", `the collectors of corp do not have all of session ${id} yet`, {
    hint: "sbx status shows what waits; try again when they are back",
  });
}

/**
 * Removes the record of a session; its tombstone stays in the register.
 *
 * @throws {SbxError} as {@linkcode requireRemovable}; `register.unavailable`
 */
export async function removeRecord(
  parts: RemovalParts,
  entry: SessionEntry,
  removal: Omit<Removal, "heads">,
): Promise<{ events: number; bytes: number }> {
  const { sessions, fleet, feeds } = parts;
  const { id } = entry;
  if (!await fleet.release(id) || !await feeds.release(id)) throw notSent(id);
  return await sessions.remove(id, removal);
}

/**
 * Removes the record of a session at a person's wish.
 *
 * @throws {SbxError} `session.not_found`, and as {@linkcode removeRecord}
 */
export async function removeSession(
  parts: RemovalParts,
  id: string,
  { user, client }: AnsweredBy,
  now = Date.now(),
): Promise<{ id: string; name: string; events: number; bytes: number }> {
  const entry = await parts.sessions.get(id);
  if (!entry) {
    throw new SbxError("session.not_found", `there is no session ${id}`, { hint: "sbx sessions lists them" });
  }
  await requireRemovable(parts, entry, await binnedOf(parts.bin), now);
  const by = { user: user.slice(0, 256), client: client.slice(0, 256) };
  return { id, name: entry.name, ...await removeRecord(parts, entry, { reason: "person", by }) };
}

/** Ids of the VMs that can be restored. */
export async function binnedOf(bin: RemovalParts["bin"]): Promise<Set<string>> {
  return new Set((await bin.list()).map(({ id }) => id));
}
