/** Costs of models by day, for a chart: one bar a day, a part for each of the dearest models. */
import type { Answer, RouteAt } from "../../../lib/client/api/schema.ts";

export type DayCost = Answer<RouteAt<"GET", "/sessions/costs">>["days"][number];

/** Models with a colour of their own; the others share one. */
const MODELS_MAX = 4;
const DAY_MS = 24 * 3600 * 1000;

export interface CostDays {
  /** the dearest first; the last may be undefined: all others */
  models: (string | undefined)[];
  /** the oldest first, days without a call too */
  days: { day: string; micros: number; parts: number[] }[];
}

/** Name of a model with its provider's. */
export const modelOf = ({ provider, model }: Pick<DayCost, "provider" | "model">) => `${provider} ${model}`;

/**
 * Arranges costs by day, in UTC, as budgets count.
 *
 * @param rows by day and model
 * @param until the last day, unix `ms`
 * @param count of days
 */
export function costDaysOf(rows: readonly DayCost[], until: number, count: number): CostDays {
  const last = Math.floor(until / DAY_MS);
  const names = Array.from(
    { length: count },
    (_, at) => new Date((last - count + 1 + at) * DAY_MS).toISOString().slice(0, 10),
  );
  const totals = new Map<string, number>();
  for (const row of rows) totals.set(modelOf(row), (totals.get(modelOf(row)) ?? 0) + row.cost_micros);
  const sorted = [...totals].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const models: (string | undefined)[] = sorted.length > MODELS_MAX
    ? [...sorted.slice(0, MODELS_MAX - 1), undefined]
    : sorted;
  const days = names.map((day) => ({ day, micros: 0, parts: models.map(() => 0) }));
  for (const row of rows) {
    const bar = days[names.indexOf(row.day)];
    if (!bar) continue;
    const own = models.indexOf(modelOf(row));
    bar.parts[own < 0 ? models.length - 1 : own] += row.cost_micros;
    bar.micros += row.cost_micros;
  }
  return { models, days };
}

/** Days from the first with a call to the last one, for a chart of a session. @param most of them */
export function spanOf(rows: readonly DayCost[], until: number, least: number, most: number): number {
  const [first] = rows;
  if (!first) return least;
  const span = Math.floor(until / DAY_MS) - Math.floor(Date.parse(first.day) / DAY_MS) + 1;
  return Math.min(most, Math.max(least, span));
}
