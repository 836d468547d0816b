import { api, type DetectionList } from "../../api/routes.ts";
import { useLoaded } from "../../part/load.ts";
import { Table } from "../../part/table.tsx";
import { dateOf } from "../../part/time.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { TryDetection } from "./try.tsx";
import { ChangeTable } from "../../part/change_table.tsx";

/** Active detections, with the number of matches of each; detections never block. */
export function DetectionsPage() {
  const { value, reload } = useLoaded(api.detections);
  const stats = useLoaded(api.detectionStats);
  const sync = stats.value.value?.sync;
  const words = text.detections;
  const remove = async (id: string) => {
    await act(() => api.removeDetection(id), words.removed(id));
    await reload();
  };
  return (
    <>
      <h1>{text.page.detections}</h1>
      {sync && <p class="hint">{words.synced(sync.synced_count, sync.target_count)}</p>}
      {value.value?.rules.length === 0 && <p class="empty">{words.empty}</p>}
      <Table
        label={text.page.detections}
        head={[words.rule, words.pack, words.scope, words.state, words.matches, words.last, words.actions]}
      >
        {value.value?.rules.map((
          { id, pack_id, scope, enabled, compiled, match_count, last_matched_unix_ms },
        ) => (
          <tr key={`${scope} ${id}`}>
            <th scope="row">{id}</th>
            <td>{pack_id}</td>
            <td>{scope}</td>
            <td>{!compiled ? words.broken : enabled ? words.on : words.off}</td>
            <td>{match_count}</td>
            <td>{last_matched_unix_ms ? dateOf(last_matched_unix_ms) : text.common.none}</td>
            <td>
              {scope === "runtime"
                ? <button type="button" onClick={() => remove(id)}>{words.remove(id)}</button>
                : text.common.none}
            </td>
          </tr>
        ))}
      </Table>
      <TryDetection onAdded={reload} />
      <Changes list={value.value} onUndone={reload} />
    </>
  );
}

/** The recorded changes of detections that were put in at run time, each of which can be undone. */
function Changes({ list, onUndone }: { list: DetectionList | undefined; onUndone: () => void }) {
  const { value } = useLoaded(() => api.changes(), [list]);
  const words = text.rules.changes;
  const changes = (value.value?.changes ?? []).filter((change) => change.kind === "detection");
  if (changes.length === 0) return null;
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <ChangeTable
        label={words.tableOfDetections}
        head={text.detections.rule}
        changes={changes}
        idOf={({ detection_id }) => detection_id}
        draw={(overlay) => <Definition value={overlay?.definition} />}
        onUndone={onUndone}
      />
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
