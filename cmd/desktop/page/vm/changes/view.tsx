import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type SnapshotInfo, type VmSummary } from "../../../api/routes.ts";
import { dateOf } from "../../../part/time.ts";
import { act } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";
import { WorkSection } from "../work/view.tsx";
import { ChangeList } from "./list.tsx";

/** What changed in the workspace since a snapshot, to be kept or put back. */
export function ChangesView({ vm }: { vm: VmSummary }) {
  const snapshots = useSignal<SnapshotInfo[] | undefined>(undefined);
  const chosen = useSignal<string | undefined>(undefined);
  const words = text.changes;
  const read = () =>
    act(async () => {
      snapshots.value = (await api.snapshots(vm.id)).snapshots.toReversed();
      chosen.value ??= snapshots.value[0]?.id;
    });
  useEffect(() => void read(), [vm.id]);
  const make = async () => {
    await act(() => api.createSnapshot(vm.id), words.made);
    chosen.value = undefined;
    await read();
  };
  const undo = async () => {
    await act(() => api.undo(vm.id), words.undone);
    chosen.value = undefined;
    await read();
  };
  return (
    <>
      {vm.status === "Running" && <WorkSection vm={vm} />}
      <h2>{words.snapshots}</h2>
      <div class="filters">
        {snapshots.value && snapshots.value.length > 0 && (
          <label>
            {words.since}{" "}
            <select value={chosen.value} onChange={({ currentTarget }) => chosen.value = currentTarget.value}>
              {snapshots.value.map(({ id, label, created_unix_ms }) => (
                <option key={id} value={id}>{words.label(id, label ?? dateOf(created_unix_ms))}</option>
              ))}
            </select>
          </label>
        )}
        <button type="button" onClick={make}>{words.make}</button>
        <button type="button" onClick={undo}>{words.undoLast}</button>
      </div>
      {snapshots.value?.length === 0 && <p class="empty">{words.none}</p>}
      {chosen.value && <ChangeList key={chosen.value} vm={vm.id} snapshot={chosen.value} onRestored={read} />}
    </>
  );
}
