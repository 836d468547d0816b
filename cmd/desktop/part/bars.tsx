/** Counts over time as stacked bars: allowed, asked about, blocked. */

/** Events of one bar, by the decision that was final. */
export interface BarCounts {
  events: number;
  denied: number;
  asked: number;
}

/** Height of the drawing in its own units; the style sheet sizes it. */
const HEIGHT = 100;
/** Least height of a part, so that one event among a thousand is seen. */
const LEAST = 6;

/** @param label the graph in words */
export function Bars({ bars, label }: { bars: BarCounts[]; label: string }) {
  const most = Math.max(1, ...bars.map(({ events }) => events));
  return (
    <svg
      class="bars"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${bars.length} ${HEIGHT}`}
      preserveAspectRatio="none"
    >
      {bars.map((bar, at) => <StackedBar key={at} bar={bar} at={at} most={most} />)}
    </svg>
  );
}

function StackedBar(
  { bar: { events, denied, asked }, at, most }: { bar: BarCounts; at: number; most: number },
) {
  if (events === 0) return null;
  let top = HEIGHT;
  const part = (count: number, name: string) => {
    if (count <= 0) return null;
    const height = Math.min(top, Math.max(LEAST, (count / most) * HEIGHT));
    top -= height;
    return <rect class={name} x={at + 0.1} y={top} width={0.8} height={height} />;
  };
  return (
    <g>
      {part(denied, "block")}
      {part(asked, "ask")}
      {part(events - denied - asked, "allow")}
    </g>
  );
}
