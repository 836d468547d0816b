import { GUEST_WORKSPACE } from "../../event/mod.ts";
import type { Change } from "./diff.ts";
import { toText } from "./path.ts";
import type { SnapshotChange, SnapshotInfo } from "./schema.ts";
import type { Restored } from "./store.ts";

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
