import type { LoadedRule, Matcher } from "../detection/mod.ts";
import { type EventRef, Evidence, matchesOf } from "../detection/replay/mod.ts";
import type { LabEvent } from "./event.ts";
import type { LabReport, LabRule } from "./report.ts";

/** Compares two sets of detections over the same events. */
export class DetectionTrial {
  readonly #gained: Evidence;
  readonly #lost: Evidence;
  readonly #rules = new Map<string, LabRule>();

  constructor(readonly before: Matcher, readonly after: Matcher, limit: number) {
    this.#gained = new Evidence(limit);
    this.#lost = new Evidence(limit);
  }

  run(event: LabEvent, ref: EventRef): void {
    const [before, after] = [this.before.hits(event), this.after.hits(event)];
    if (!before.length && !after.length) return;
    const [gained, lost] = [subtract(after, before), subtract(before, after)];
    for (const hit of before) this.#ruleOf(hit).baseline++;
    for (const hit of after) this.#ruleOf(hit).candidate++;
    for (const hit of gained) this.#ruleOf(hit).gained++;
    for (const hit of lost) this.#ruleOf(hit).lost++;
    this.#gained.add(event, ref, matchesOf(event, gained));
    this.#lost.add(event, ref, matchesOf(event, lost));
  }

  report(): Pick<LabReport, "rules" | "gained" | "lost"> {
    const rules = [...this.#rules.values()].filter(({ gained, lost }) => gained || lost)
      .sort((a, b) => b.lost + b.gained - a.lost - a.gained || (a.rule_id < b.rule_id ? -1 : 1));
    return { rules, gained: this.#gained.report(), lost: this.#lost.report() };
  }

  #ruleOf(hit: LoadedRule): LabRule {
    const key = keyOf(hit);
    let rule = this.#rules.get(key);
    if (!rule) {
      const { rule: { id: rule_id, title }, pack_id } = hit;
      rule = { rule_id, pack_id, title, baseline: 0, candidate: 0, gained: 0, lost: 0 };
      this.#rules.set(key, rule);
    }
    return rule;
  }
}

/** Key of a rule; versions of a pack share it. */
function keyOf({ rule, pack_id }: LoadedRule): string {
  return `${pack_id} ${rule.id}`;
}

function subtract(hits: readonly LoadedRule[], others: readonly LoadedRule[]): LoadedRule[] {
  return hits.filter((hit) => !others.some((other) => keyOf(other) === keyOf(hit)));
}
