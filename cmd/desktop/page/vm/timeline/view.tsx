import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { allOf } from "../../../../../lib/base/list/mod.ts";
import { EVENT_FAMILIES } from "../../../../../lib/event/mod.ts";
import type { FinalDecision, VmSummary } from "../../../api/routes.ts";
import { text } from "../../../text/en.ts";
import { Timeline } from "./events.ts";
import { EventList } from "./list.tsx";
import type { Conditions } from "./row.ts";
import { WhyPanel } from "./why.tsx";

const DECISIONS = allOf<FinalDecision>()("allow", "ask", "block");

/** All events of a VM as they happen, and the reason of each decision. */
export function TimelineView({ vm }: { vm: VmSummary }) {
  const conditions = useSignal<Conditions>({ family: "", decision: "", grep: "" });
  const chosen = useSignal<string | undefined>(undefined);
  const timeline = useMemo(() => new Timeline(vm.id, conditions.value), [vm.id, conditions.value]);
  useEffect(() => () => timeline.close(), [timeline]);
  const words = text.timeline;
  const change = (part: Partial<Conditions>) => conditions.value = { ...conditions.value, ...part };
  return (
    <>
      <div class="filters">
        <Choice label={words.family} choices={EVENT_FAMILIES} onChoose={(family) => change({ family })} />
        <Choice label={words.decision} choices={DECISIONS} onChoose={(decision) => change({ decision })} />
        <input
          type="search"
          aria-label={words.grep}
          placeholder={words.grep}
          onChange={({ currentTarget }) => change({ grep: currentTarget.value })}
        />
        <span class="hint" role="status">
          {timeline.isLoading.value ? text.common.loading : words.count(timeline.rows.value.length)}
        </span>
      </div>
      <div class="timeline">
        <EventList rows={timeline.rows} chosen={chosen} />
        <WhyPanel session={vm.id} event={chosen.value} />
      </div>
    </>
  );
}

function Choice({ label, choices, onChoose }: {
  label: string;
  choices: readonly string[];
  onChoose: (choice: string) => void;
}) {
  return (
    <select aria-label={label} onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
      <option value="">{`${label}: ${text.timeline.any}`}</option>
      {choices.map((choice) => <option key={choice} value={choice}>{choice}</option>)}
    </select>
  );
}
