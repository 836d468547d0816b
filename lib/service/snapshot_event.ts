import type { SnapshotInfo } from "../api/mod.ts";
import { GUEST_WORKSPACE } from "../event/mod.ts";
import { log } from "../base/log/mod.ts";
import type { Restored } from "../snapshot/mod.ts";
import type { Vm } from "./vm.ts";

/** Records that files left the workspace for a snapshot, or came back from one (docs/contracts.md §5). */
export async function recordSnapshot(
  vm: Vm,
  operation: "export" | "import",
  snapshot: SnapshotInfo,
  restored?: Restored,
): Promise<void> {
  if (vm.state.state !== "Running" && vm.state.state !== "Paused") return;
  const labels = {
    snapshot: snapshot.id,
    ...(snapshot.label !== undefined && { snapshot_label: snapshot.label }),
    ...(restored && {
      snapshot_before: restored.before.id,
      changes: String(restored.changes.length),
      failed: String(restored.failed.length),
    }),
  };
  const byte_count = restored
    ? restored.changes.reduce((sum, { after }) => sum + (after?.type === "file" ? after.size : 0), 0)
    : snapshot.bytes;
  await vm.process.call({ t: "ObserveFile", operation, path: GUEST_WORKSPACE, byte_count, labels })
    .catch((error) => log.warn(error));
}
