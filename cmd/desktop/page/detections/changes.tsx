import { api, type DetectionList } from "../../api/routes.ts";
import { ChangeTable } from "../../part/change_table.tsx";
import { useLoaded } from "../../part/load.ts";
import { text } from "../../text/en.ts";

/** The recorded changes of detections that were put in at run time, each of which can be undone. */
export function Changes({ list, onUndone }: { list: DetectionList | undefined; onUndone: () => void }) {
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
