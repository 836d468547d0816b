/** Search over the records of all sessions, with a graph over time. */
import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { api } from "../../api/routes.ts";
import { hrefOf, query, setQuery } from "../../app/route.ts";
import { type BarCounts, Bars } from "../../part/bars.tsx";
import { Table } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { SearchField } from "../../part/search.tsx";
import { subjectOf } from "../../part/subject.ts";
import { When } from "../../part/time.tsx";
import { act, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";

const HOUR_MS = 3600 * 1000;
const PERIODS = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 7 * 24 * HOUR_MS, month: 30 * 24 * HOUR_MS };
type Period = keyof typeof PERIODS;
const DECISIONS = ["allow", "ask", "block"] as const;
type Decided = typeof DECISIONS[number];
/** Bars of the graph. */
const BARS = 60;
/** Events that are listed. */
const LISTED = "200";

type Found = Awaited<ReturnType<typeof api.eventsAcross>>;

interface Answer {
  found: Found;
  bars: BarCounts[];
  /** begin of the bars and the present, unix `ms` */
  span: [number, number];
  unreadable: number;
}

/** One search over the records of all sessions. Its words are in the address. */
export function SearchPage() {
  const { q = "", decision = "", time = "day" } = query.value;
  const period: Period = Object.hasOwn(PERIODS, time) ? time as Period : "day";
  const decided = DECISIONS.find((each) => each === decision);
  const answer = useSignal<Answer | undefined>(undefined);
  const isBusy = useSignal(false);
  const isAsked = q !== "" || decided !== undefined;
  useEffect(() => {
    answer.value = undefined;
    if (!isAsked) return;
    let isCurrent = true;
    isBusy.value = true;
    act(() => read(q, decided, period, (read) => isCurrent && (answer.value = read)))
      .finally(() => isCurrent && (isBusy.value = false));
    return () => void (isCurrent = false);
  }, [q, decided, period]);
  const words = text.search;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setQuery({ q: String(new FormData(event.target as HTMLFormElement).get("q")).trim() });
  };
  return (
    <>
      <div class="head">
        <h1>{text.page.search}</h1>
      </div>
      <form class="filters" role="search" onSubmit={submit}>
        <SearchField class="grow" name="q" label={words.field} value={q} />
        <select
          aria-label={words.decision}
          value={decided ?? ""}
          onChange={({ currentTarget }) => setQuery({ decision: currentTarget.value })}
        >
          <option value="">{`${words.decision}: ${words.any}`}</option>
          {DECISIONS.map((each) => <option key={each} value={each}>{words.decisions[each]}</option>)}
        </select>
        <select
          aria-label={words.period}
          value={period}
          onChange={({ currentTarget }) => setQuery({ time: currentTarget.value })}
        >
          {(Object.keys(PERIODS) as Period[]).map((each) => (
            <option key={each} value={each}>{words.periods[each]}</option>
          ))}
        </select>
        <button type="submit" class="main">
          <Icon name="search" /> {words.submit}
        </button>
      </form>
      {!isAsked && <p class="empty">{words.start}</p>}
      {isBusy.value && <p class="hint" role="status">{text.common.loading}</p>}
      {answer.value && <Results answer={answer.value} />}
    </>
  );
}

async function read(
  q: string,
  decision: Decided | undefined,
  period: Period,
  take: (answer: Answer) => void,
): Promise<void> {
  const length = PERIODS[period];
  const step = length / BARS;
  const first = Math.floor((Date.now() - length) / step) + 1;
  const conditions = { grep: q, decision, since: String(first * step) };
  const [found, counts] = await Promise.all([
    api.eventsAcross({ ...conditions, order: "newest", limit: LISTED }),
    api.counts({ ...conditions, step: String(step) }),
  ]);
  const bars = Array.from({ length: BARS }, () => ({ events: 0, denied: 0, asked: 0 }));
  for (const { at_unix_ms, events, denied, asked } of counts.steps) {
    const bar = bars[Math.round(at_unix_ms / step) - first];
    if (bar) Object.assign(bar, { events, denied, asked });
  }
  take({
    found,
    bars,
    span: [first * step, Date.now()],
    unreadable: new Set([...found.unreadable, ...counts.unreadable]).size,
  });
}

function Results({ answer: { found, bars, span, unreadable } }: { answer: Answer }) {
  const words = text.search;
  const total = bars.reduce((sum, { events }) => sum + events, 0);
  const denied = bars.reduce((sum, bar) => sum + bar.denied, 0);
  const groups = [...Map.groupBy(found.events, ({ common }) => common.session_id)];
  return (
    <>
      {unreadable > 0 && <p class="warning">{words.unreadable(unreadable)}</p>}
      {found.events.length === 0 ? <p class="empty">{words.nothing}</p> : (
        <>
          <p class="hint" role="status">
            {words.count(total, groups.length)} {found.next_cursor && words.newest(found.events.length)}
          </p>
          <div class="histogram">
            <Bars bars={bars} label={words.graph(total, denied)} />
            <p class="axis">
              {span.map((at) => <When key={at} at={at} />)}
            </p>
          </div>
        </>
      )}
      {groups.map(([session, events]) => (
        <section key={session} aria-label={words.results(events[0].vm)}>
          <h2>
            <a href={placeOf(session)}>{events[0].vm}</a> <span class="pill">{events.length}</span>
          </h2>
          <Table
            label={words.results(events[0].vm)}
            head={[words.time, words.event, words.decision, words.subject]}
          >
            {events.map((event) => (
              <tr key={event.common.event_id}>
                <td>
                  <When at={event.common.timestamp_unix_ms} />
                </td>
                <td>{event.common.event_type}</td>
                <td>
                  {event.decision
                    ? <span class={`pill ${event.decision}`}>{event.decision}</span>
                    : text.common.none}
                </td>
                <th scope="row">
                  <a href={`${placeOf(session)}?event=${event.common.event_id}`}>
                    {subjectOf(event) || event.common.event_id}
                  </a>
                </th>
              </tr>
            ))}
          </Table>
        </section>
      ))}
    </>
  );
}

/** The timeline of a session, of its VM where that is there. */
function placeOf(session: string): string {
  const vm = vms.value.find(({ id }) => id === session);
  return vm ? hrefOf("vm", vm.name, "timeline") : hrefOf("session", session, "timeline");
}
