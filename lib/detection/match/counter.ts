import type { RuleCounter } from "./schema.ts";

export type { RuleCounter } from "./schema.ts";

/** Merges counters of several VMs into one per rule: sums the counts, keeps the latest match. */
export function mergeCounters(counters: readonly RuleCounter[]): RuleCounter[] {
  const merged = new Map<string, RuleCounter>();
  for (const counter of counters) {
    const key = `${counter.pack_id} ${counter.rule_id}`;
    const sum = merged.get(key);
    if (!sum) {
      merged.set(key, { ...counter });
      continue;
    }
    sum.match_count += counter.match_count;
    if ((counter.last_matched_unix_ms ?? -1) > (sum.last_matched_unix_ms ?? -1)) {
      sum.last_matched_event = counter.last_matched_event;
      sum.last_matched_unix_ms = counter.last_matched_unix_ms;
    }
  }
  return [...merged.values()];
}
