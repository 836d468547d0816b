/** Texts of costs by day. */
export const costs = {
  about:
    "Estimated costs of model calls in all sessions, of deleted VMs too. Days are in UTC, as budgets count.",
  days: "Days",
  last: (days: number) => `${days} days`,
  byDay: "Costs by day",
  byModel: "By model",
  day: "Day",
  each: "By day",
  none: "No model was called in this time.",
  others: "other models",
  unreadable: (count: number) =>
    count === 1 ? "1 record could not be read." : `${count} records could not be read.`,
  total: (days: number) => `Cost of ${days} days`,
  today: "Cost today",
  mean: "A day, on average",
  calls: (count: number) => count === 1 ? "1 call" : `${count.toLocaleString("en")} calls`,
  dollars: (micros: number) => `$${(micros / 1e6).toFixed(micros > 0 && micros < 10_000 ? 4 : 2)}`,
  bar: (day: string, cost: string) => `${day}: ${cost}`,
  budget: (cost: string) => `budget of a day: ${cost}`,
  /** a chart in words */
  graph: (total: string, days: number, most: string) =>
    `${total} in ${days} days, at most ${most} on one of them`,
};
