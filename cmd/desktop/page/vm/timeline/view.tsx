import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { allOf } from "../../../../../lib/base/list/mod.ts";
import { EVENT_FAMILIES } from "../../../../../lib/event/mod.ts";
import { api, type Explained, type FinalDecision, type VmSummary } from "../../../api/routes.ts";
import { text } from "../../../text/en.ts";
import { Timeline } from "./events.ts";
import { EventList } from "./list.tsx";
import type { Conditions } from "./row.ts";
import { EventFields } from "../../../part/fields.tsx";
import { act } from "../../../store/act.ts";

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

/** One event with its decision: the rule and its place, what matched, and what nearly did. */
function WhyPanel({ session, event }: { session: string; event: string | undefined }) {
  const why = useSignal<Explained | undefined>(undefined);
  useEffect(() => {
    why.value = undefined;
    if (event) act(async () => why.value = await api.why(session, event));
  }, [session, event]);
  return (
    <section class="why" aria-label={text.timeline.why} tabIndex={0}>
      {why.value ? <Why why={why.value} /> : <p class="hint">{text.timeline.select}</p>}
    </section>
  );
}

function Why({ why: { event, decision, findings } }: { why: Explained }) {
  const words = text.timeline;
  return (
    <>
      {decision && (
        <>
          <h2>{words.decided(decision.decision, decision.rule.name || decision.rule.id)}</h2>
          <dl>
            <Entry name={words.reason} value={decision.rule.reason} />
            <Entry
              name={words.place}
              value={decision.rule.file && words.at(decision.rule.file, decision.rule.line)}
            />
            <Entry
              name={words.matched}
              value={decision.matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`)
                .join("\n")}
            />
            <Entry
              name={words.nearMisses}
              value={decision.near_misses.map(({ rule_id, failed }) => `${rule_id}: ${failed}`).join("\n")}
            />
            <Entry name={words.remedy} value={decision.remedy} />
          </dl>
        </>
      )}
      {findings.length > 0 && (
        <>
          <h2>{words.findings}</h2>
          <ul>
            {findings.map(({ finding_id, severity, title }) => (
              <li key={finding_id}>{`${severity}: ${title}`}</li>
            ))}
          </ul>
        </>
      )}
      <EventFields value={event} />
    </>
  );
}

function Entry({ name, value }: { name: string; value: string | undefined }) {
  if (!value) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
