import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { api, type RecordedEvent, type VmSummary } from "../../../api/routes.ts";
import { act } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";
import { Timeline } from "./events.ts";
import { EventList } from "./list.tsx";

interface Props {
  vm: VmSummary;
  family: string;
  /** draws the chosen event */
  draw: (event: RecordedEvent) => ComponentChildren;
}

/** Events of one family as they happen, and the chosen one whole. */
export function FamilyView({ vm, family, draw }: Props) {
  const grep = useSignal("");
  const chosen = useSignal<string | undefined>(undefined);
  const event = useSignal<RecordedEvent | undefined>(undefined);
  const timeline = useMemo(
    () => new Timeline(vm.id, { family, decision: "", grep: grep.value }),
    [vm.id, family, grep.value],
  );
  useEffect(() => () => timeline.close(), [timeline]);
  useEffect(() => {
    event.value = undefined;
    const id = chosen.value;
    if (id) {
      act(async () => {
        const { event: found } = await api.why(vm.id, id);
        if (chosen.value === id) event.value = found;
      });
    }
  }, [chosen.value]);
  const words = text.timeline;
  return (
    <>
      <div class="filters">
        <input
          type="search"
          aria-label={words.grep}
          placeholder={words.grep}
          onChange={({ currentTarget }) => grep.value = currentTarget.value}
        />
        <span class="hint" role="status">
          {timeline.isLoading.value ? text.common.loading : words.count(timeline.rows.value.length)}
        </span>
      </div>
      <div class="timeline">
        <EventList rows={timeline.rows} chosen={chosen} />
        <section class="why" aria-label={words.whole} tabIndex={0}>
          {event.value ? <h2>{event.value.common.event_type}</h2> : <p class="hint">{words.choose}</p>}
          {event.value && draw(event.value)}
        </section>
      </div>
    </>
  );
}
