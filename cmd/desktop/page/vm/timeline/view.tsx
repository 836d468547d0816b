/** Timeline of a session: its events, filters, and the details of the chosen event. */
import type { ComponentChildren } from "preact";
import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { allOf } from "../../../../../lib/base/list/mod.ts";
import { EVENT_FAMILIES } from "../../../../../lib/event/mod.ts";
import { api, type Explained, type FinalDecision, type RecordedEvent } from "../../../api/routes.ts";
import { hrefOf, query, setQuery, useAddressed } from "../../../app/route.ts";
import { text } from "../../../text/en.ts";
import { EventFields } from "../../../part/http.tsx";
import { act } from "../../../store/store.ts";
import { dateOf, timeOf } from "../../../part/common.tsx";
import { Icon, type IconName } from "../../../part/icon.tsx";
import { SearchField } from "../../../part/search.tsx";
import { subjectOf } from "../../../part/subject.ts";
import { When } from "../../../part/time.tsx";
import { Histogram } from "./histogram.tsx";
import { whenRecorded } from "../../../part/recorded.ts";
import { RuleEditor } from "../../rules/editor.tsx";
import { allowing } from "./allow.ts";
import { type Line, linesOf, type Row } from "./lines.ts";
import { ROWS_MAX, Timeline } from "./record.ts";

const DECISIONS = allOf<FinalDecision>()("allow", "ask", "block");

/** A session that has a record, running or over. */
export interface Recorded {
  id: string;
  name: string;
  /** whose rules decided */
  profile_id: string;
}

/**
 * All events of a session as they happen, and the reason of each decision. Filters and the
 * chosen event are in the address.
 */
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
        <SearchField label={words.grep} value={grep} onSearch={(q) => setQuery({ q })} />
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

/** Windows of one column (style/small.css). */
const NARROW = "(max-width: 640px)";

/** One event with its decision: the rule and its place, what matched, and what nearly did. */
function WhyPanel({ session, event }: { session: string; event: string | undefined }) {
  const why = useSignal<Explained | undefined>(undefined);
  const panel = useRef<HTMLElement>(null);
  // In a narrow window the reason is below the list, out of sight.
  useEffect(() => {
    if (why.value && matchMedia(NARROW).matches) panel.current?.scrollIntoView({ block: "nearest" });
  }, [why.value]);
  useEffect(() => {
    why.value = undefined;
    let isLate = false;
    // A late answer would put another event's rule beside this one.
    if (event) {
      act(async () => {
        const answer = await whenRecorded(() => api.why(session, event));
        if (!isLate) why.value = answer;
      });
    }
    return () => void (isLate = true);
  }, [session, event]);
  return (
    <section ref={panel} class="why" aria-label={text.timeline.why} tabIndex={0}>
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
      <div class="buttons">
        {decision?.decision === "block" && (rule?.layer === "profile" || rule?.layer === "default") && (
          <AllowThis event={event} />
        )}
        {rule?.layer === "profile" && (
          <a
            href={`${hrefOf("rules")}?profile=${encodeURIComponent(profile_id)}&rule=${
              encodeURIComponent(rule.id)
            }`}
          >
            {words.editRule}
          </a>
        )}
      </div>
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

/** Makes a rule of an event that was blocked, shown with its effect on the session before it is saved. */
function AllowThis({ event }: { event: RecordedEvent }) {
  const isOpen = useSignal(false);
  const subject = allowing(event);
  const words = text.timeline;
  if (!subject) return null;
  const { profile_id, session_id } = event.common;
  return (
    <>
      <button type="button" onClick={() => isOpen.value = true}>{words.allowThis}</button>
      {isOpen.value && (
        <RuleEditor
          profile={profile_id}
          title={words.allowTitle(profile_id)}
          subject={subject}
          session={session_id}
          onSaved={() => {}}
          onClose={() => isOpen.value = false}
        />
      )}
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

/**
 * Events in a box that scrolls, the newest on top; only the rows in sight are drawn, and
 * older ones are read at its end.
 */
export function EventList(
  { timeline, chosen, cells }: {
    timeline: Timeline;
    chosen: Signal<string | undefined>;
    /** draws cells of a row in place of its program and its rule */
    cells?: (row: Row) => ComponentChildren;
  },
) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  /** the first row as it was drawn: rows that come above it move nothing that a person reads */
  const anchor = useRef<string | undefined>(undefined);
  const isPointed = useRef(false);
  const first = useComputed(() => Math.max(0, Math.floor(top.value / ROW_HEIGHT) - MARGIN));
  const count = Math.ceil(height.value / ROW_HEIGHT) + 2 * MARGIN;
  const rows = timeline.rows.value;
  /** lines whose events are listed below them */
  const open = useSignal<ReadonlySet<string>>(new Set());
  const all = useMemo(() => linesOf(rows, open.value), [rows, open.value]);
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
  const toggle = (id: string) => open.value = open.value.symmetricDifference(new Set([id]));
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    const at = lineOf(all, chosen.value);
    const isRepeated = at >= 0 && all[at].rows.length > 1;
    if (isRepeated && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      if (open.value.has(all[at].id) !== (event.key === "ArrowRight")) toggle(all[at].id);
      return;
    }
    if (step === undefined || all.length === 0) return;
    event.preventDefault();
    const next = at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step));
    chosen.value = all[next].rows[0].id;
    keepInSight(box.current!, next);
    if (next === all.length - 1) timeline.loadOlder();
  };
  const marked = lineOf(all, chosen.value);
  const active = drawn.find((line) => line === all[marked]);
  return (
    <div
      ref={box}
      class="events"
      role="listbox"
      aria-label={text.timeline.list}
      aria-activedescendant={active && `event-${active.id}`}
      data-empty={all.length === 0 && !timeline.isLoading.value ? text.timeline.empty : undefined}
      tabIndex={0}
      onScroll={onScroll}
      onPointerEnter={() => isPointed.current = true}
      onPointerLeave={() => isPointed.current = false}
      onKeyDown={onKey}
    >
      <div class="space" role="presentation" style={{ height: `${all.length * ROW_HEIGHT}px` }}>
        {drawn.map((line, index) => (
          <EventRow
            // An element stays with its event: a click that began on it goes to no other one.
            key={line.id}
            line={line}
            place={first.value + index}
            count={all.length}
            isChosen={line === active}
            cells={cells}
            isOpen={open.value.has(line.id)}
            onChoose={() => chosen.value = line.rows[0].id}
            onToggle={() => toggle(line.id)}
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

/** Place of the line that has the event; the event's own line where its group is open. */
function lineOf(lines: readonly Line[], event: string | undefined): number {
  if (event === undefined) return -1;
  return lines.findLastIndex(({ rows }) => rows.some(({ id }) => id === event));
}

interface RowProps {
  line: Line;
  place: number;
  count: number;
  isChosen: boolean;
  cells?: (row: Row) => ComponentChildren;
  /** its events are listed below it */
  isOpen: boolean;
  onChoose: () => void;
  onToggle: () => void;
}

function EventRow({ line, place, count, isChosen, cells, isOpen, onChoose, onToggle }: RowProps) {
  const { rows: [row], rows } = line;
  const toggle = (event: Event) => {
    event.stopPropagation();
    onToggle();
  };
  return (
    <div
      id={`event-${line.id}`}
      class={["event", row.decision, line.isPart && "part", cells && "with-cells"].filter(Boolean).join(" ")}
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
      <span title={row.subject}>
        {rows.length > 1 && (
          // By the keyboard: the arrows to the right and to the left.
          <span class="repeats" title={text.timeline.repeats(isOpen)} onClick={toggle}>
            ×{rows.length.toLocaleString("en")} {isOpen ? "▾" : "▸"}
          </span>
        )}
        {row.subject}
      </span>
      {cells ? cells(row) : (
        <>
          <span class="program" title={row.program}>{row.program}</span>
          <span class="rule-of" title={row.rule}>{row.rule}</span>
        </>
      )}
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
