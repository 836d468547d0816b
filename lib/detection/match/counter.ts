/** What a rule has found; of one VM, or of all of them together. */
export interface RuleCounter {
  rule_id: string;
  pack_id: string;
  match_count: number;
  /** id of the event that it matched last */
  last_matched_event: string | null;
  last_matched_unix_ms: number | null;
}

/** Counters of the same rules, of several VMs, as one each: counts added, the last match is the last of all. */
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
