import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { allOf } from "../../../../../lib/base/list/mod.ts";
import { EVENT_FAMILIES } from "../../../../../lib/event/mod.ts";
import { api, type Explained, type FinalDecision } from "../../../api/routes.ts";
import { hrefOf, query, setQuery, useAddressed } from "../../../app/route.ts";
import { text } from "../../../text/en.ts";
import { EventFields } from "../../../part/http.tsx";
import { act } from "../../../store/store.ts";
import { dateOf, timeOf } from "../../../part/common.tsx";
import { Icon, type IconName } from "../../../part/icon.tsx";
import { subjectOf } from "../../../part/subject.ts";
import { When } from "../../../part/time.tsx";
import { Histogram } from "./histogram.tsx";
import { type Row, ROWS_MAX, Timeline } from "./record.ts";

const DECISIONS = allOf<FinalDecision>()("allow", "ask", "block");

/** A session that has a record, running or over. */
export interface Recorded {
  id: string;
  name: string;
}

/** All events of a session as they happen, and the reason of each decision. Filters and the chosen event are in the address. */
export function TimelineView({ vm }: { vm: Recorded }) {
  const { family = "", decision = "", q: grep = "" } = query.value;
  const since = timeIn(query.value.since), until = timeIn(query.value.until);
  const chosen = useAddressed("event");
  const conditions = { family, decision, grep, since, until };
  const timeline = useMemo(() => new Timeline(vm.id, conditions), [
    vm.id,
    family,
    decision,
    grep,
    since,
    until,
  ]);
  useEffect(() => () => timeline.close(), [timeline]);
  const words = text.timeline;
  return (
    <>
      <div class="filters">
        <Choice
          label={words.family}
          value={family}
          choices={EVENT_FAMILIES}
          onChoose={(family) => setQuery({ family })}
        />
        <Choice
          label={words.decision}
          value={decision}
          choices={DECISIONS}
          onChoose={(decision) => setQuery({ decision })}
        />
        <input
          type="search"
          aria-label={words.grep}
          placeholder={words.grep}
          value={grep}
          onChange={({ currentTarget }) => setQuery({ q: currentTarget.value })}
        />
        <Extent timeline={timeline} />
      </div>
      <Histogram session={vm.id} conditions={conditions} />
      <div class="timeline">
        <EventList timeline={timeline} chosen={chosen} />
        <WhyPanel session={vm.id} event={chosen.value} />
      </div>
    </>
  );
}

/** A time in the address, unix `ms`. */
function timeIn(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,15}$/.test(value) ? Number(value) : undefined;
}

/** The shown part of the record, and a way to older events. */
export function Extent({ timeline }: { timeline: Timeline }) {
  const words = text.timeline;
  const count = timeline.rows.value.length;
  const isFull = count >= ROWS_MAX;
  return (
    <span class="hint" role="status">
      {timeline.isLoading.value
        ? text.common.loading
        : !timeline.hasOlder.value
        ? words.count(count)
        : isFull
        ? words.full(count)
        : words.newest(count)}
    </span>
  );
}

function Choice({ label, value, choices, onChoose }: {
  label: string;
  value: string;
  choices: readonly string[];
  onChoose: (choice: string) => void;
}) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={({ currentTarget }) => onChoose(currentTarget.value)}
    >
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

/** Layers of rules, in the order in which they decide. */
const LAYERS = ["corp", "profile", "default"] as const;

function Why({ why: { event, decision, findings } }: { why: Explained }) {
  const words = text.timeline;
  const { profile_id, timestamp_unix_ms } = event.common;
  const rule = decision?.rule;
  return (
    <>
      {decision && rule && (
        <>
          <h2>
            <span class={`pill ${decision.decision}`}>{words.decisions[decision.decision]}</span>{" "}
            {words.by(rule.layer, rule.name || rule.id)}
          </h2>
          {rule.reason && <p class="reason">{rule.reason}</p>}
          <ol class="layers" aria-label={words.layers.label}>
            {LAYERS.map((layer) => (
              <li key={layer} aria-current={layer === rule.layer ? "step" : undefined}>
                {words.layers[layer]}
              </li>
            ))}
          </ol>
        </>
      )}
      <p class="subject">
        <code>{subjectOf(event) || event.common.event_type}</code>
      </p>
      <p class="hint">
        {event.common.event_type} · <When at={timestamp_unix_ms} />
      </p>
      {rule?.layer === "profile" && (
        <p>
          <a
            href={`${hrefOf("rules")}?profile=${encodeURIComponent(profile_id)}&rule=${
              encodeURIComponent(rule.id)
            }`}
          >
            {words.editRule}
          </a>
        </p>
      )}
      {decision && (
        <dl>
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
      )}
      {findings.length > 0 && (
        <>
          <h3>{words.findings}</h3>
          <ul class="plain">
            {findings.map(({ finding_id, severity, title }) => (
              <li key={finding_id}>
                <span class={`pill ${severity}`}>{severity}</span> {title}
              </li>
            ))}
          </ul>
        </>
      )}
      <details>
        <summary>{words.fields}</summary>
        <EventFields value={event} />
      </details>
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

/** `px` of a row; the style sheet has the same. */
const ROW_HEIGHT = 32;
/** Rows drawn beyond each edge. */
const MARGIN = 12;

/** Events in a box that scrolls, the newest on top; only the rows in sight are drawn, and older ones are read at its end. */
export function EventList({ timeline, chosen }: { timeline: Timeline; chosen: Signal<string | undefined> }) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  /** the first row as it was drawn: rows that come above it move nothing that a person reads */
  const anchor = useRef<string | undefined>(undefined);
  const isPointed = useRef(false);
  const first = useComputed(() => Math.max(0, Math.floor(top.value / ROW_HEIGHT) - MARGIN));
  const count = Math.ceil(height.value / ROW_HEIGHT) + 2 * MARGIN;
  const all = timeline.rows.value;
  const drawn = all.slice(first.value, first.value + count);
  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => height.value = contentRect.height);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const added = anchor.current === undefined ? 0 : all.findIndex(({ id }) => id === anchor.current);
    anchor.current = all[0]?.id;
    // The row under the pointer may be clicked in this moment.
    if (added > 0 && (isPointed.current || box.current!.scrollTop > ROW_HEIGHT)) {
      box.current!.scrollTop += added * ROW_HEIGHT;
    }
  }, [all]);
  const onScroll = (
    { currentTarget: { scrollTop, scrollHeight, clientHeight } }: { currentTarget: HTMLElement },
  ) => {
    top.value = scrollTop;
    if (scrollTop + clientHeight >= scrollHeight - MARGIN * ROW_HEIGHT) timeline.loadOlder();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step === undefined || all.length === 0) return;
    event.preventDefault();
    const at = all.findIndex(({ id }) => id === chosen.value);
    const next = at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step));
    chosen.value = all[next].id;
    keepInSight(box.current!, next);
    if (next === all.length - 1) timeline.loadOlder();
  };
  return (
    <div
      ref={box}
      class="events"
      role="listbox"
      aria-label={text.timeline.list}
      aria-activedescendant={drawn.some(({ id }) => id === chosen.value)
        ? `event-${chosen.value}`
        : undefined}
      tabIndex={0}
      onScroll={onScroll}
      onPointerEnter={() => isPointed.current = true}
      onPointerLeave={() => isPointed.current = false}
      onKeyDown={onKey}
    >
      <div class="space" role="presentation" style={{ height: `${all.length * ROW_HEIGHT}px` }}>
        {drawn.map((row, index) => (
          <EventRow
            // An element stays with its event: a click that began on it goes to no other one.
            key={row.id}
            row={row}
            place={first.value + index}
            count={all.length}
            isChosen={row.id === chosen.value}
            onChoose={() => chosen.value = row.id}
          />
        ))}
      </div>
    </div>
  );
}

const FAMILY_ICONS: Record<string, IconName> = {
  http: "network",
  dns: "tree",
  mcp: "tools",
  model: "model",
  file: "file",
  process: "program",
  credential: "credentials",
  vm: "vm",
  ask: "inbox",
};

interface RowProps {
  row: Row;
  place: number;
  count: number;
  isChosen: boolean;
  onChoose: () => void;
}

function EventRow({ row, place, count, isChosen, onChoose }: RowProps) {
  return (
    <div
      id={`event-${row.id}`}
      class={`event ${row.decision}`}
      role="option"
      aria-selected={isChosen}
      aria-setsize={count}
      aria-posinset={place + 1}
      style={{ top: `${place * ROW_HEIGHT}px` }}
      onClick={onChoose}
    >
      <span title={dateOf(row.time)}>{timeOf(row.time)}</span>
      <span class="kind">
        <Icon name={FAMILY_ICONS[row.family] ?? "activity"} size={14} />
        {row.type}
      </span>
      <span class="decision">
        {row.decision !== "" && <span class={`pill ${row.decision}`}>{row.decision}</span>}
      </span>
      <span title={row.subject}>{row.subject}</span>
      <span class="program" title={row.program}>{row.program}</span>
      <span class="rule-of" title={row.rule}>{row.rule}</span>
    </div>
  );
}

function keepInSight(box: HTMLElement, place: number): void {
  const top = place * ROW_HEIGHT;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW_HEIGHT > box.scrollTop + box.clientHeight) {
    box.scrollTop = top + ROW_HEIGHT - box.clientHeight;
  }
}
