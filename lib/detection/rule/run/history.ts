/**
 * Correlations over the events of a session, in bounded memory; the same events
 * in the same order find the same.
 */
import type { CountCondition, PlanCorrelation } from "../plan.ts";
import { type Tally, tallyOf } from "./tally.ts";

// The oldest groups are forgotten (docs/design/contracts/14-limits.md §14).

/** Most groups of one correlation, and most entries of all its groups. */
const GROUPS_MAX = 10_000;
const ENTRIES_MAX = 100_000;
/**
 * Most groups and entries of all correlations together, of which each has an equal
 * share, and the smallest share.
 */
const ALL_GROUPS_MAX = 200_000;
const ALL_ENTRIES_MAX = 2_000_000;
const SHARE_MIN = 100;

/** A match of a rule that a correlation counts. */
export interface Occurrence {
  /** id of the rule or correlation that matched */
  rule_id: string;
  /** unix `ms` */
  time: number;
  /** values of the group's fields */
  group: string;
  /** value of the counted field */
  value?: string;
}

/** What happened in one group. */
interface Group {
  /** of counting correlations */
  tally?: Tally;
  /**
   * of temporal ones: time of the last match, by place of the rule; ordered: when the chain up to it began
   */
  last: (number | undefined)[];
  firedAt?: number;
}

/** State of one correlation. */
export class History {
  readonly #groups = new Map<string, Group>();
  readonly #places: ReadonlyMap<string, number[]>;
  readonly #groupsMax: number;
  readonly #entriesMax: number;
  #entries = 0;

  /** @param correlations number of all that share the memory */
  constructor(readonly correlation: PlanCorrelation, correlations = 1) {
    const share = (all: number, most: number) =>
      Math.max(SHARE_MIN, Math.min(most, Math.floor(all / correlations)));
    this.#groupsMax = share(ALL_GROUPS_MAX, GROUPS_MAX);
    this.#entriesMax = share(ALL_ENTRIES_MAX, ENTRIES_MAX);
    const places = new Map<string, number[]>();
    correlation.rules.forEach((id, at) => places.set(id, [...places.get(id) ?? [], at]));
    this.#places = places;
  }

  /** Tests whether a rule is one of the correlation's. */
  counts(rule_id: string): boolean {
    return this.#places.has(rule_id);
  }

  /**
   * Adds a match.
   * @returns true if the correlation matches with it, at most once in its time for each group
   */
  add(occurrence: Occurrence): boolean {
    const { timespan_ms, count } = this.correlation;
    const group = this.#groupOf(occurrence.group);
    const { time } = occurrence;
    if (!holds(count, this.#count(group, occurrence))) return false;
    if (group.firedAt !== undefined && time - group.firedAt < timespan_ms) return false;
    group.firedAt = time;
    return true;
  }

  /** Continues with what another remembers of the same correlation. */
  adopt(other: History): void {
    for (const [key, group] of other.#groups) this.#groups.set(key, group);
    this.#entries = other.#entries;
  }

  #groupOf(key: string): Group {
    const known = this.#groups.get(key);
    // The order is that of use.
    if (known) this.#groups.delete(key);
    const group = known ?? { last: [] };
    this.#groups.set(key, group);
    while (
      this.#groups.size > this.#groupsMax || this.#entries > this.#entriesMax && this.#groups.size > 1
    ) this.#forget();
    return group;
  }

  #forget(): void {
    const [key, { tally }] = this.#groups.entries().next().value!;
    this.#entries -= tally?.size ?? 0;
    this.#groups.delete(key);
  }

  #count(group: Group, occurrence: Occurrence): number {
    const { type, timespan_ms } = this.correlation;
    const from = occurrence.time - timespan_ms;
    if (type === "temporal") return this.#together(group, occurrence, from);
    if (type === "temporal_ordered") return this.#inOrder(group, occurrence, from);
    const tally = group.tally ??= tallyOf(this.correlation);
    const before = tally.size;
    const count = tally.add(occurrence.time, occurrence.value, from);
    this.#entries += tally.size - before;
    return count;
  }

  /** Number of rules that matched within the time. */
  #together({ last }: Group, { rule_id, time }: Occurrence, from: number): number {
    for (const place of this.#places.get(rule_id)!) last[place] = time;
    let count = 0;
    for (const at of last) if (at !== undefined && at > from) count++;
    return count;
  }

  /**
   * Length of the longest chain, in the order of the rules and within the time, that ends with this match.
   */
  #inOrder({ last }: Group, { rule_id, time }: Occurrence, from: number): number {
    let length = 0;
    // From the end: one event is only one link.
    for (const place of this.#places.get(rule_id)!.toReversed()) {
      const began = place === 0 ? time : last[place - 1];
      if (began === undefined || began <= from) continue;
      last[place] = began;
      length = Math.max(length, place + 1);
    }
    return length;
  }
}

function holds({ lt, lte, gt, gte, eq, neq }: CountCondition, count: number): boolean {
  return (lt === undefined || count < lt) && (lte === undefined || count <= lte) &&
    (gt === undefined || count > gt) && (gte === undefined || count >= gte) &&
    (eq === undefined || count === eq) && (neq === undefined || count !== neq);
}
