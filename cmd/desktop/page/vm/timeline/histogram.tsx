/**
 * Events of a session over time, above its list. A part that is drawn over with the
 * pointer becomes the span of the list.
 */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../../api/routes.ts";
import { setQuery } from "../../../app/route.ts";
import { type BarCounts, Bars } from "../../../part/bars.tsx";
import { timeOf } from "../../../part/common.tsx";
import { onMessage } from "../../../store/live.ts";
import { connection } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import type { Conditions } from "./record.ts";

/** Bars, at most one more. */
const BARS = 90;
/** Shortest `ms` of a bar, which the route has too. */
const STEP_MIN = 1000;
/** `ms` between two readings while events happen. */
const READ_MS = 5000;

interface Graph {
  first: number;
  step: number;
  bars: BarCounts[];
}

export function Histogram({ session, conditions }: { session: string; conditions: Conditions }) {
  const graph = useSignal<Graph | undefined>(undefined);
  const drag = useSignal<{ from: number; to: number } | undefined>(undefined);
  const { family, decision, grep, since, until } = conditions;
  const isOnline = connection.value === "online";
  useEffect(() => {
    if (!isOnline) return;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = () =>
      readGraph(session, conditions).then(
        (found) => isOver || (graph.value = found),
        // The list above the same conditions says why a record cannot be read.
        () => {},
      );
    read();
    const stop = onMessage(({ type, payload }) => {
      if (type !== "security-event" || payload.event.common.session_id !== session) return;
      timer ??= setTimeout(() => [timer = undefined, read()], READ_MS);
    });
    return () => {
      isOver = true;
      stop();
      clearTimeout(timer);
    };
  }, [session, family, decision, grep, since, until, isOnline]);
  const words = text.timeline.graph;
  if (graph.value === undefined) return <div class="histogram" />;
  const { first, step, bars } = graph.value;
  const barAt = ({ currentTarget, clientX }: PointerEvent) => {
    const { left, width } = (currentTarget as HTMLElement).getBoundingClientRect();
    return Math.min(bars.length - 1, Math.max(0, Math.floor(((clientX - left) / width) * bars.length)));
  };
  const end = () => {
    if (drag.value === undefined) return;
    const [from, to] = [drag.value.from, drag.value.to].sort((a, b) => a - b);
    drag.value = undefined;
    setQuery({ since: String(first + from * step), until: String(first + (to + 1) * step) });
  };
  const sum = (of: (bar: BarCounts) => number) => bars.reduce((all, bar) => all + of(bar), 0);
  const chosen = drag.value && {
    left: `${(Math.min(drag.value.from, drag.value.to) / bars.length) * 100}%`,
    width: `${((Math.abs(drag.value.to - drag.value.from) + 1) / bars.length) * 100}%`,
  };
  return (
    <div class="histogram">
      <div
        class="plot"
        onPointerDown={(event) => {
          (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
          drag.value = { from: barAt(event), to: barAt(event) };
        }}
        onPointerMove={(event) => drag.value && (drag.value = { ...drag.value, to: barAt(event) })}
        onPointerUp={end}
        onPointerCancel={() => drag.value = undefined}
      >
        <Bars bars={bars} label={words.label(sum((bar) => bar.events), sum((bar) => bar.denied))} />
        {chosen && <span class="span" style={chosen} />}
      </div>
      <div class="axis">
        <span>{timeOf(first)}</span>
        {since !== undefined || until !== undefined
          ? (
            <button
              type="button"
              class="ghost"
              onClick={() => setQuery({ since: undefined, until: undefined })}
            >
              {words.whole}
            </button>
          )
          : <span>{words.hint}</span>}
        <span>{timeOf(first + bars.length * step)}</span>
      </div>
    </div>
  );
}

/** Counts over the chosen span, or from the first event of the session to the last. */
async function readGraph(session: string, conditions: Conditions): Promise<Graph | undefined> {
  const { since, until, family, decision, grep } = conditions;
  const timeOfOne = async (order: "oldest" | "newest") =>
    (await api.events(session, { order, limit: "1" })).events[0]?.common.timestamp_unix_ms;
  const [from, to] = await Promise.all([since ?? timeOfOne("oldest"), until ?? timeOfOne("newest")]);
  if (from === undefined || to === undefined) return undefined;
  const step = Math.max(STEP_MIN, Math.ceil((to - from + 1) / BARS));
  const first = Math.floor(from / step) * step;
  const count = Math.floor((to - 1 - first) / step) + 1;
  const { steps } = await api.counts(
    {
      vm: session,
      family,
      decision,
      grep,
      since: String(first),
      ...(until !== undefined && { until: String(until) }),
      step: String(step),
    } as Parameters<typeof api.counts>[0],
  );
  const bars = Array.from({ length: Math.max(1, count) }, () => ({ events: 0, denied: 0, asked: 0 }));
  for (const { at_unix_ms, events, denied, asked } of steps) {
    const bar = bars[Math.round((at_unix_ms - first) / step)];
    if (bar) Object.assign(bar, { events, denied, asked });
  }
  return { first, step, bars };
}
