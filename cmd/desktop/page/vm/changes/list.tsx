import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../../api/routes.ts";
import { act } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";

type Change = Awaited<ReturnType<typeof api.diff>>["changes"][number];

interface Props {
  vm: string;
  snapshot: string;
  onRestored: () => void;
}

/** Changed paths; the chosen ones, or all, are put back as they were. */
export function ChangeList({ vm, snapshot, onRestored }: Props) {
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
