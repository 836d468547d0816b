import { useSignal } from "@preact/signals";
import { api, type DetectionList } from "../../api/routes.ts";
import { useAddressed } from "../../app/route.ts";
import { ChangeTable } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { useLoaded } from "../../store/store.ts";
import { FilterField } from "../../part/search.tsx";
import { text } from "../../text/en.ts";
import { Exceptions } from "../vm/findings/exceptions.tsx";
import { PackView } from "./pack.tsx";
import { found, packsOf, STATES } from "./packs.ts";
import { TryDetection } from "./try.tsx";

/** Packs whose rules are shown at once. */
const OPEN_MAX = 3;

/** Active detections by pack, with the number of matches of each; detections never block. */
export function DetectionsPage() {
  const { value, reload } = useLoaded(api.detections);
  const stats = useLoaded(api.detectionStats, [value.value]);
  /** grows with each change of the exceptions */
  const excepted = useSignal(0);
  const [sought, chosen] = [useAddressed("q"), useAddressed("state")];
  const words = text.detections;
  const list = value.value;
  const packs = packsOf(list?.rules ?? []);
  const state = STATES.find((each) => each === chosen.value) ?? "all";
  const shown = found(packs, sought.value ?? "", state);
  const count = packs.reduce((sum, { rules }) => sum + rules.length, 0);
  const isFiltered = state !== "all" || !!sought.value;
  const sync = stats.value.value?.sync;
  return (
    <>
      <div class="head">
        <h1>{text.page.detections}</h1>
      </div>
      <p class="lead">{words.about}</p>
      {list === undefined && <p role="status">{text.common.loading}</p>}
      {list && packs.length === 0 && (
        <div class="nothing">
          <Icon name="detections" size={24} />
          <p>{words.empty}</p>
        </div>
      )}
      {packs.length > 0 && (
        <div class="filters">
          <FilterField
            label={words.find}
            value={sought.value ?? ""}
            onFilter={(typed) => sought.value = typed || undefined}
          />
          <label>
            {words.state}{" "}
            <select
              value={state}
              onChange={({ currentTarget }) => chosen.value = currentTarget.value}
            >
              {STATES.map((each) => <option key={each} value={each}>{words.states[each]}</option>)}
            </select>
          </label>
          <span class="hint" role="status">
            {words.count(count, packs.length)}
            {sync && sync.target_count > 0 && ` · ${words.synced(sync.synced_count, sync.target_count)}`}
          </span>
        </div>
      )}
      {packs.length > 0 && shown.length === 0 && <p class="empty">{words.nothing}</p>}
      {shown.map((pack) => (
        <PackView
          key={`${pack.scope} ${pack.id}`}
          pack={pack}
          isOpen={isFiltered || packs.length <= OPEN_MAX}
          onChanged={reload}
        />
      ))}
      <Exceptions
        changes={excepted.value}
        onRemoved={() => {
          excepted.value++;
          return Promise.resolve();
        }}
      />
      <TryDetection onAdded={reload} />
      <Changes list={list} onUndone={reload} />
    </>
  );
}

/** The recorded changes of detections and of switches, each of which can be undone. */
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
        draw={(overlay) => (
          <Definition value={overlay?.definition} isOn={overlay?.enabled} reason={overlay?.reason} />
        )}
        onUndone={onUndone}
      />
    </section>
  );
}

function Definition(
  { value, isOn, reason }: { value: unknown; isOn: boolean | undefined; reason: string | undefined },
) {
  if (value === undefined) return <>{text.common.none}</>;
  return (
    <>
      {isOn ? text.detections.on : text.detections.off}
      {reason && <p class="hint">{reason}</p>}
      <details>
        <summary>{text.rules.changes.definition}</summary>
        <code>{JSON.stringify(value)}</code>
      </details>
    </>
  );
}
