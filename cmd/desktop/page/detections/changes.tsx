import { api, type DetectionList } from "../../api/routes.ts";
import { useLoaded } from "../../part/load.ts";
import { Table } from "../../part/table.tsx";
import { dateOf } from "../../part/time.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";

/** The recorded changes of detections that were put in at run time, each of which can be undone. */
export function Changes({ list, onUndone }: { list: DetectionList | undefined; onUndone: () => void }) {
  const { value } = useLoaded(() => api.changes(), [list]);
  const words = text.rules.changes;
  const undo = async (change_id: string, id: string) => {
    if (await act(() => api.undoChange(change_id), words.undone(id))) onUndone();
  };
  const changes = (value.value?.changes ?? []).filter((change) => change.kind === "detection");
  if (changes.length === 0) return null;
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <Table
        label={words.tableOfDetections}
        head={[
          words.time,
          text.detections.rule,
          words.what,
          words.by,
          words.before,
          words.after,
          text.rules.actions,
        ]}
      >
        {changes.map(({ change_id, at, detection_id, what, before, after, by, undoes }) => (
          <tr key={change_id}>
            <td>{dateOf(at)}</td>
            <th scope="row">{detection_id}</th>
            <td>{words.nameOf(what, undoes)}</td>
            <td>{by.user} ({by.client})</td>
            <td>
              <Definition value={before?.definition} />
            </td>
            <td>
              <Definition value={after?.definition} />
            </td>
            <td>
              <button
                type="button"
                aria-label={words.undoOf(what, detection_id)}
                onClick={() =>
                  undo(change_id, detection_id)}
              >
                {words.undo}
              </button>
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function Definition({ value }: { value: unknown }) {
  if (value === undefined) return <>{text.common.none}</>;
  return (
    <details>
      <summary>{text.rules.changes.definition}</summary>
      <code>{JSON.stringify(value)}</code>
    </details>
  );
}
