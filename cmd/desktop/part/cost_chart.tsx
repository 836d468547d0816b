/** Costs of models by day as stacked bars, with the line of a daily budget. */
import type { CostDays } from "../store/cost_days.ts";
import { text } from "../text/en.ts";

/** Height of the drawing in its own units; the style sheet sizes it. */
const HEIGHT = 100;
/** Least height of a part, so that a cheap day is seen. */
const LEAST = 2;
/** A budget that is more times the dearest day is no line: it would flatten the bars. */
const BUDGET_TIMES = 3;

/** @param budget of a day, millionths of a US dollar */
export function CostChart({ costs: { models, days }, budget }: { costs: CostDays; budget?: number }) {
  const words = text.costs;
  const dearest = Math.max(1, ...days.map(({ micros }) => micros));
  const line = budget !== undefined && budget <= dearest * BUDGET_TIMES ? budget : undefined;
  const most = Math.max(dearest, line ?? 0) * 1.05;
  const heightOf = (micros: number) => (micros / most) * HEIGHT;
  const total = days.reduce((sum, { micros }) => sum + micros, 0);
  return (
    <figure class="cost-chart">
      <div class="plot">
        <svg
          role="img"
          aria-label={words.graph(words.dollars(total), days.length, words.dollars(dearest))}
          viewBox={`0 0 ${days.length} ${HEIGHT}`}
          preserveAspectRatio="none"
        >
          {days.map(({ day, micros, parts }, at) => (
            <g key={day}>
              <title>{words.bar(day, words.dollars(micros))}</title>
              <rect class="hover" x={at} y={0} width={1} height={HEIGHT} />
              {stacked(parts.map(heightOf)).map(({ top, height }, part) =>
                height > 0 && (
                  <rect key={part} class={`part${part}`} x={at + 0.12} y={top} width={0.76} height={height} />
                )
              )}
            </g>
          ))}
          {line !== undefined && (
            <line
              class="budget-line"
              x1={0}
              x2={days.length}
              y1={HEIGHT - heightOf(line)}
              y2={HEIGHT - heightOf(line)}
            />
          )}
        </svg>
        <span class="most hint">{words.dollars(dearest)}</span>
      </div>
      <div class="axis hint" aria-hidden="true">
        <span>{days[0]?.day}</span>
        <span>{days.at(-1)?.day}</span>
      </div>
      <figcaption>
        {models.map((name, at) => (
          <span key={name ?? ""}>
            <span class={`key part${at}`} /> {name ?? words.others}
          </span>
        ))}
        {line !== undefined && (
          <span>
            <span class="key budget-key" /> {words.budget(words.dollars(line))}
          </span>
        )}
      </figcaption>
    </figure>
  );
}

/** Parts of one bar from its foot upwards. */
function stacked(heights: number[]): { top: number; height: number }[] {
  let top = HEIGHT;
  return heights.map((height) => {
    const drawn = height > 0 ? Math.max(LEAST, height) : 0;
    top -= drawn;
    return { top, height: drawn };
  });
}
