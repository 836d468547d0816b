import type { SnapshotInfo } from "../api/mod.ts";
import { log } from "../base/log/mod.ts";
import { eventOf, type Restored } from "../snapshot/mod.ts";
import type { Vm } from "./vm.ts";

/** Records that files left the workspace for a snapshot, or came back from one (docs/contracts.md §5). */
export async function recordSnapshot(vm: Vm, snapshot: SnapshotInfo, restored?: Restored): Promise<void> {
  if (vm.state.state !== "Running" && vm.state.state !== "Paused") return;
  await vm.process.call({ t: "ObserveFile", ...eventOf(snapshot, restored) }).catch((error) =>
    log.warn(error)
  );
}
