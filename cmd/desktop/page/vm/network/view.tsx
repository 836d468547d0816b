/** Requests of a VM: the hosts of its programs, and each exchange whole. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { formatBytes } from "../../../../../lib/base/progress/mod.ts";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { query, setQuery, useAddressed } from "../../../app/route.ts";
import { HttpExchange } from "../../../part/http.tsx";
import { whenRecorded } from "../../../part/recorded.ts";
import { SearchField } from "../../../part/search.tsx";
import { act } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import { RuleEditor } from "../../rules/editor.tsx";
import { allowingOnly, blocking } from "../timeline/allow.ts";
import type { Row } from "../timeline/lines.ts";
import { Timeline } from "../timeline/record.ts";
import { EventList, Extent, type Recorded } from "../timeline/view.tsx";
import { type Flow, flowsOf } from "./flows.ts";

/** Requests of a VM with their headers and bodies, in both directions. */
export function RequestsView({ vm }: { vm: Recorded }) {
  const { q: grep = "" } = query.value;
  const chosen = useAddressed("event");
  const event = useSignal<RecordedEvent | undefined>(undefined);
  const timeline = useMemo(
    () => new Timeline(vm.id, { family: "http", decision: "", grep }),
    [vm.id, grep],
  );
  useEffect(() => () => timeline.close(), [timeline]);
  useEffect(() => {
    event.value = undefined;
    const id = chosen.value;
    if (id) {
      act(async () => {
        const { event: found } = await whenRecorded(() => api.why(vm.id, id));
        if (chosen.value === id) event.value = found;
      });
    }
  }, [chosen.value]);
  const words = text.timeline;
  return (
    <>
      <div class="filters">
        <SearchField label={words.grep} value={grep} onSearch={(q) => setQuery({ q })} />
        <Extent timeline={timeline} />
      </div>
      <Flows vm={vm} rows={timeline.rows.value} />
      <div class="timeline requests">
        <EventList timeline={timeline} chosen={chosen} cells={cellsOf} />
        <section class="why" aria-label={words.whole} tabIndex={0}>
          {event.value?.http ? <BlockHost vm={vm} host={event.value.http.request.host} /> : null}
          {event.value ? <h2>{event.value.common.event_type}</h2> : <p class="hint">{words.choose}</p>}
          {event.value?.http && <HttpExchange http={event.value.http} />}
        </section>
      </div>
    </>
  );
}

/** Program, status, size and time of a request. */
function cellsOf({ program, status, bytes, duration_ms }: Row) {
  return (
    <>
      <span class="program" title={program}>{program}</span>
      <span class={status !== undefined && status >= 400 ? "number failed" : "number"}>{status}</span>
      <span class="number">{bytes ? formatBytes(bytes) : ""}</span>
      <span class="number">{duration_ms === undefined ? "" : `${Math.round(duration_ms)} ms`}</span>
    </>
  );
}

/** Flows that are drawn; the others are a number. */
const FLOWS_MAX = 6;
/** Least width of a bar, percent. */
const LEAST = 1;

/** Programs and their hosts, each as wide as its bytes; a click shows only its requests. */
function Flows({ vm, rows }: { vm: Recorded; rows: readonly Row[] }) {
  const flows = useMemo(() => flowsOf(rows), [rows]);
  const only = useSignal<readonly string[] | undefined>(undefined);
  const words = text.network;
  if (flows.length === 0) return null;
  const most = Math.max(1, ...flows.map(({ bytes }) => bytes));
  const allowed = [
    ...new Set(flows.filter(({ blocked, events }) => blocked < events).map(({ host }) => host)),
  ];
  return (
    <section class="flows" aria-label={words.hosts}>
      <ul>
        {flows.slice(0, FLOWS_MAX).map((flow) => (
          <li key={`${flow.program} ${flow.host}`}>
            <FlowBar flow={flow} most={most} />
          </li>
        ))}
      </ul>
      <p class="hint">
        {flows.length > FLOWS_MAX && words.others(flows.length - FLOWS_MAX)} {allowed.length > 0 && (
          <button
            type="button"
            class="ghost"
            onClick={() => only.value = allowed.toSorted()}
          >
            {words.onlyThese}
          </button>
        )}
      </p>
      {only.value && (
        <RuleEditor
          profile={vm.profile_id}
          title={words.onlyTitle(vm.profile_id)}
          subject={allowingOnly(only.value)}
          session={vm.id}
          onSaved={() => {}}
          onClose={() => only.value = undefined}
        />
      )}
    </section>
  );
}

function FlowBar({ flow: { program, host, events, blocked, bytes }, most }: { flow: Flow; most: number }) {
  const words = text.network;
  const { q } = query.value;
  const kind = blocked === events ? "block" : blocked > 0 ? "ask" : "allow";
  return (
    <button
      type="button"
      class="flow"
      aria-pressed={q === host}
      title={words.show(host)}
      onClick={() => setQuery({ q: q === host ? undefined : host })}
    >
      <span class="flow-name">{words.from(program, host)}</span>
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class={kind} width={Math.max(LEAST, bytes / most * 100)} height="8" />
      </svg>
      <span class="number">{formatBytes(bytes)}</span>
      <span class="hint number">{words.counted(events, blocked)}</span>
    </button>
  );
}

/** Opens a rule against the host of the chosen request, with its effect on the session. */
function BlockHost({ vm, host }: { vm: Recorded; host: string }) {
  const isOpen = useSignal(false);
  const words = text.network;
  return (
    <>
      <button type="button" class="block-host" onClick={() => isOpen.value = true}>{words.block}</button>
      {isOpen.value && (
        <RuleEditor
          profile={vm.profile_id}
          title={words.blockTitle(host, vm.profile_id)}
          subject={blocking(host)}
          session={vm.id}
          onSaved={() => {}}
          onClose={() => isOpen.value = false}
        />
      )}
    </>
  );
}
