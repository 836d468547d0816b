import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type SnapshotInfo, type VmSummary } from "../../../api/routes.ts";
import { dateOf } from "../../../part/common.tsx";
import { act } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import { WorkSection } from "../work/section.tsx";

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

type Change = Awaited<ReturnType<typeof api.diff>>["changes"][number];

interface Props {
  vm: string;
  snapshot: string;
  onRestored: () => void;
}

/** Changed paths; the chosen ones, or all, are put back as they were. */
function ChangeList({ vm, snapshot, onRestored }: Props) {
  const changes = useSignal<Change[] | undefined>(undefined);
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const words = text.changes;
  const read = () => act(async () => changes.value = (await api.diff(vm, snapshot)).changes);
  useEffect(() => void read(), [vm, snapshot]);
  const toggle = (path: string) => chosen.value = chosen.value.symmetricDifference(new Set([path]));
  const undo = async () => {
    const paths = chosen.value.size === 0 ? undefined : [...chosen.value];
    await act(() => api.restore(vm, snapshot, paths), words.undone);
    chosen.value = new Set();
    await read();
    onRestored();
  };
  if (changes.value === undefined) return <p>{text.common.loading}</p>;
  if (changes.value.length === 0) return <p class="empty">{words.noChanges}</p>;
  return (
    <>
      <table aria-label={text.vm.changes}>
        <thead>
          <tr>
            <th scope="col">{words.path}</th>
            <th scope="col">{words.change}</th>
            <th scope="col">{words.size}</th>
          </tr>
        </thead>
        <tbody>
          {changes.value.map(({ path, change, size_before, size_after }) => (
            <tr key={path}>
              <th scope="row">
                <label class="check">
                  <input
                    type="checkbox"
                    aria-label={words.choose(path)}
                    checked={chosen.value.has(path)}
                    onChange={() => toggle(path)}
                  />
                  {path}
                </label>
              </th>
              <td>{change}</td>
              <td>{`${size_before ?? text.common.none} → ${size_after ?? text.common.none}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div class="buttons">
        <button type="button" class="danger" onClick={undo}>{words.undo(chosen.value.size)}</button>
      </div>
    </>
  );
}
