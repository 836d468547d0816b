import { type Signal, signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { allOf } from "../../../../../lib/base/list/mod.ts";
import { EVENT_FAMILIES } from "../../../../../lib/event/mod.ts";
import {
  api,
  type Explained,
  type FinalDecision,
  type RecordedEvent,
  type VmSummary,
} from "../../../api/routes.ts";
import { text } from "../../../text/en.ts";
import { EventFields } from "../../../part/http.tsx";
import { act } from "../../../store/store.ts";
import { timeOf } from "../../../part/common.tsx";
import { type LiveDecision, onMessage } from "../../../store/live.ts";
import { subjectOf } from "../../../part/subject.ts";

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

/** `px` of a row; the style sheet has the same. */
const ROW_HEIGHT = 28;
/** Rows drawn beyond each edge. */
const MARGIN = 12;

/** Events in a box that scrolls; only the rows in sight are drawn. It follows new ones while it is at its end. */
export function EventList({ rows, chosen }: { rows: Signal<Row[]>; chosen: Signal<string | undefined> }) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const isAtEnd = useRef(true);
  const first = useComputed(() => Math.max(0, Math.floor(top.value / ROW_HEIGHT) - MARGIN));
  const count = Math.ceil(height.value / ROW_HEIGHT) + 2 * MARGIN;
  const all = rows.value;
  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => height.value = contentRect.height);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (isAtEnd.current) box.current!.scrollTop = all.length * ROW_HEIGHT;
  }, [all]);
  const onScroll = (
    { currentTarget: { scrollTop, scrollHeight, clientHeight } }: { currentTarget: HTMLElement },
  ) => {
    top.value = scrollTop;
    isAtEnd.current = scrollTop + clientHeight >= scrollHeight - ROW_HEIGHT;
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step === undefined || all.length === 0) return;
    event.preventDefault();
    const at = all.findIndex(({ id }) => id === chosen.value);
    const next = at < 0 ? all.length - 1 : Math.min(all.length - 1, Math.max(0, at + step));
    chosen.value = all[next].id;
    keepInSight(box.current!, next);
  };
  return (
    <div
      ref={box}
      class="events"
      role="listbox"
      aria-label={text.timeline.list}
      aria-activedescendant={chosen.value && `event-${chosen.value}`}
      tabIndex={0}
      onScroll={onScroll}
      onKeyDown={onKey}
    >
      <div class="space" role="presentation" style={{ height: `${all.length * ROW_HEIGHT}px` }}>
        {all.slice(first.value, first.value + count).map((row, index) => (
          <EventRow
            // An element that leaves one end of the box is used again at the other.
            key={(first.value + index) % count}
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
      <span>{timeOf(row.time)}</span>
      <span>{row.type}</span>
      <span>{row.decision}</span>
      <span>{row.subject}</span>
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

/** Events of one request. */
const PAGE_SIZE = "1000";
/** Events that are kept; more are in the record, behind narrower conditions. */
const ROWS_MAX = 100_000;

/** Fewest `ms` between two times that a record is shown while it is read. */
const SHOW_MS = 250;

/** The timeline of one session under some conditions: pages of the record, and events that arrive meanwhile. */
export class Timeline {
  /** oldest first */
  readonly rows = signal<Row[]>([]);
  readonly isLoading = signal(true);
  readonly #stop: () => void;
  #isOver = false;
  #pending: Row[] = [];
  #early: Row[] | undefined = [];
  #frame = 0;

  constructor(session: string, conditions: Conditions) {
    this.#stop = onMessage(({ type, payload }) => {
      if (type !== "security-event" || payload.event.common.session_id !== session) return;
      const row = rowOf(payload.event, payload.decision);
      if (!matches(row, conditions)) return;
      if (this.#early) this.#early.push(row);
      else this.#add(row);
    });
    act(() => this.#read(session, conditions));
  }

  close(): void {
    this.#isOver = true;
    this.#stop();
    cancelAnimationFrame(this.#frame);
  }

  async #read(session: string, { family, decision, grep }: Conditions): Promise<void> {
    let cursor: string | undefined;
    let read: Row[] = [], shownAt = -Infinity;
    do {
      const page = await api.events(session, { family, decision, grep, cursor, limit: PAGE_SIZE });
      if (this.#isOver) return;
      for (const event of page.events) read.push(rowOf(event));
      cursor = page.next_cursor;
      if (performance.now() - shownAt < SHOW_MS) continue;
      shownAt = performance.now();
      this.rows.value = read;
      read = read.slice();
    } while (cursor !== undefined && read.length < ROWS_MAX);
    this.rows.value = read;
    const early = this.#early ?? [];
    this.#early = undefined;
    early.forEach((row) => this.#add(row));
    this.isLoading.value = false;
  }

  /** Adds all events since the last frame in one step, however many. */
  #add(row: Row): void {
    this.#pending.push(row);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const known = this.rows.value;
      const last = known.at(-1)?.sequence ?? 0;
      const fresh = this.#pending.splice(0).filter(({ sequence }) => sequence > last);
      this.rows.value = [...known, ...fresh].slice(-ROWS_MAX);
    });
  }
}

/** One line of a timeline. */
interface Row {
  id: string;
  sequence: number;
  time: number;
  family: string;
  type: string;
  subject: string;
  decision: string;
  rule: string;
  /** the text that a search matches, in lower case; of live events alone */
  all?: string;
}

/** Conditions of a timeline; empty texts are no conditions. */
interface Conditions {
  family: string;
  decision: string;
  grep: string;
}

/** @param decision of a live event, which has none of its own */
function rowOf(event: RecordedEvent, decision?: LiveDecision): Row {
  const { event_id, event_type, sequence, timestamp_unix_ms } = event.common;
  return {
    id: event_id,
    sequence,
    time: timestamp_unix_ms,
    family: event_type.split(".")[0],
    type: event_type,
    subject: subjectOf(event),
    decision: decision?.decision ?? event.decision ?? "",
    rule: decision?.rule.id ?? event.rule_id ?? "",
    ...(decision && { all: JSON.stringify(event).toLowerCase() }),
  };
}

function matches(row: Row, { family, decision, grep }: Conditions): boolean {
  return (family === "" || row.family === family) && (decision === "" || row.decision === decision) &&
    (grep === "" || (row.all ?? "").includes(grep.toLowerCase()));
}
