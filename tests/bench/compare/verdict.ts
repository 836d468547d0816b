/** Figures of the fast benchmarks that two commits are compared by, and what their rounds show. */
import { median, rounded } from "../../helper/statistics.ts";

/** A figure in the JSON of a benchmark. */
export interface Figure {
  /** keys and indexes, joined by dots */
  path: string;
  /** a larger value is better */
  isMoreBetter: boolean;
}

const more = (path: string): Figure => ({ path, isMoreBetter: true });
const less = (path: string): Figure => ({ path, isMoreBetter: false });

/**
 * Benchmarks that need no VM and end within a minute, with what each promises. Ratios to a floor of the same
 * run, and processor time, vary less on a busy machine than times and rates do.
 */
export const FIGURES: Readonly<Record<string, readonly Figure[]>> = {
  detection: [
    more("ratio_of_cpu_time"),
    less("growth_of_cpu_time"),
    less("peak_rss_mb.0"),
    less("live_us_1000"),
  ],
  dns: [more("ratio")],
  gateway: [more("by_clients.8.ratio")],
  ledger: [more("cpu_ratio"), less("event_cpu_us"), more("verified_per_second")],
  mcp_endpoint: [more("sdk_server.throughput_ratio"), more("bare_server.throughput_ratio")],
  net: [more("requests_per_s"), less("added_p50_ms"), less("rss_mb_after_50000")],
  policy: [less("mean_us"), less("p99_us"), less("growth_100_to_5000"), less("compile_ms")],
  settings: [less("ratio"), less("from_text_ratio")],
  version: [less("ratio")],
};

/** How much worse a figure may be, beyond what its rounds differ by. */
export const WORSE_MAX = 0.05;

/** What the rounds show of one figure. */
export interface Verdict {
  bench: string;
  figure: string;
  /** medians */
  base: number;
  head: number;
  /** head to base, as cost: above 1 is worse. The median of the rounds, the best of them and the worst. */
  cost: { median: number; best: number; worst: number };
  isRegression: boolean;
}

/** Value at a path. @returns `undefined` if it is not there or is no number */
export function valueAt(result: unknown, path: string): number | undefined {
  let value: unknown = result;
  for (const key of path.split(".")) value = (value as Record<string, unknown> | undefined)?.[key];
  return typeof value === "number" ? value : undefined;
}

/**
 * Compares a benchmark's figures round by round. A figure is a regression when each round of the head is
 * worse than the round of the base beside it by more than {@linkcode WORSE_MAX}.
 *
 * @param rounds results of base and head, in pairs
 */
export function verdictsOf(
  bench: string,
  rounds: readonly (readonly [base: unknown, head: unknown])[],
): Verdict[] {
  return FIGURES[bench].flatMap(({ path, isMoreBetter }) => {
    const pairs = rounds.map(([base, head]) => [valueAt(base, path), valueAt(head, path)] as const)
      .filter((pair): pair is [number, number] => pair.every((value) => value !== undefined && value > 0));
    if (pairs.length === 0) return [];
    const costs = pairs.map(([base, head]) => isMoreBetter ? base / head : head / base);
    const best = Math.min(...costs);
    return {
      bench,
      figure: path,
      base: median(pairs.map(([base]) => base)),
      head: median(pairs.map(([, head]) => head)),
      cost: {
        median: rounded(median(costs), 3),
        best: rounded(best, 3),
        worst: rounded(Math.max(...costs), 3),
      },
      isRegression: best > 1 + WORSE_MAX,
    };
  });
}
