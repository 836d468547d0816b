/**
 * Events of a session over time, above its list. A part that is drawn over with the
 * pointer becomes the span of the list.
 */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type ListedFinding } from "../../../api/routes.ts";
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
  /** the worst finding of each bar that has one */
  findings: Map<number, ListedFinding>;
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
  const { first, step, bars, findings } = graph.value;
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
        <Bars
          bars={bars}
          label={words.label(sum((bar) => bar.events), sum((bar) => bar.denied), findings.size)}
        />
        {bars.map(({ asked }, at) => {
          const finding = findings.get(at);
          if (!finding && asked === 0) return null;
          return (
            <span key={at} class="marks" style={{ left: `${((at + 0.5) / bars.length) * 100}%` }}>
              {finding && (
                <Mark kind={finding.severity} title={words.finding(finding.severity, finding.title)} />
              )}
              {asked > 0 && <Mark kind="ask" title={words.asked(asked)} />}
            </span>
          );
        })}
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

/** A triangle for a finding, a ring for an ask that waits; the graph's own words count them. */
function Mark({ kind, title }: { kind: string; title: string }) {
  return (
    <svg class={`mark ${kind}`} width="10" height="10" viewBox="0 0 10 10" aria-hidden="true">
      <title>{title}</title>
      {kind === "ask" ? <circle cx="5" cy="5" r="3.5" /> : <path d="M5 1 L9.5 9 L0.5 9 Z" />}
    </svg>
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
  const found = findingsOf(session, conditions, (at) => Math.floor((at - first) / step));
  const [{ steps }, findings] = await Promise.all([
    api.counts(
      {
        vm: session,
        family,
        decision,
        grep,
        since: String(first),
        ...(until !== undefined && { until: String(until) }),
        step: String(step),
      } as Parameters<typeof api.counts>[0],
    ),
    found,
  ]);
  const bars = Array.from({ length: Math.max(1, count) }, () => ({ events: 0, denied: 0, asked: 0 }));
  for (const { at_unix_ms, events, denied, asked } of steps) {
    const bar = bars[Math.round((at_unix_ms - first) / step)];
    if (bar) Object.assign(bar, { events, denied, asked });
  }
  return { first, step, bars, findings };
}

const SEVERITIES = ["informational", "low", "medium", "high", "critical"];

/** The worst finding of each bar, among the newest of the session; of a choice of events, none. */
async function findingsOf(
  session: string,
  { family, decision, grep }: Conditions,
  barOf: (at: number) => number,
): Promise<Map<number, ListedFinding>> {
  const worst = new Map<number, ListedFinding>();
  if (family ?? decision ?? grep) return worst;
  for (const finding of (await api.findings(session)).findings) {
    if (finding.timestamp_unix_ms === undefined) continue;
    const bar = barOf(finding.timestamp_unix_ms);
    const other = worst.get(bar);
    const rank = ({ severity }: ListedFinding) => SEVERITIES.indexOf(severity);
    if (!other || rank(finding) > rank(other)) worst.set(bar, finding);
  }
  return worst;
}
