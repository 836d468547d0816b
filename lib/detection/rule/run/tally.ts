/**
 * The counts of a correlation in one group: matches, values, or the sum of values, of a time that moves on.
 */
import { COUNT_MAX, type PlanCorrelation } from "../plan.ts";
import { copyOf } from "./copy.ts";

/** Characters of a value that are compared (docs/design/contracts/14-limits.md §14). */
export const VALUE_MAX = 1024;

/** A count in bounded memory. */
export interface Tally {
  /** number of things kept */
  readonly size: number;
  /** Adds a match and forgets the ones at `from` or before. @returns the count now */
  add(time: number, value: string | undefined, from: number): number;
}

/** Makes the tally of a correlation; temporal ones have none. */
export function tallyOf({ type, count }: PlanCorrelation): Tally {
  // More than every number of the condition: no comparison changes beyond that.
  const most = Math.min(COUNT_MAX, Math.max(0, ...Object.values(count))) + 1;
  if (type === "value_count") return new ValueTally(most);
  return type === "value_sum" ? new SumTally() : new EventTally(most);
}

class EventTally implements Tally {
  readonly #times: number[] = [];

  constructor(readonly most: number) {}

  get size(): number {
    return this.#times.length;
  }

  add(time: number, _: string | undefined, from: number): number {
    const times = this.#times;
    times.push(time);
    let expired = Math.max(0, times.length - this.most);
    while (expired < times.length && times[expired] <= from) expired++;
    if (expired > 0) times.splice(0, expired);
    return times.length;
  }
}

/** Different values, each with its last time, the least recent first. */
class ValueTally implements Tally {
  readonly #times = new Map<string, number>();

  constructor(readonly most: number) {}

  get size(): number {
    return this.#times.size;
  }

  add(time: number, value: string | undefined, from: number): number {
    const times = this.#times;
    const key = copyOf(value ?? "", VALUE_MAX);
    times.delete(key);
    times.set(key, time);
    for (const [other, last] of times) {
      if (last > from && times.size <= this.most) break;
      times.delete(other);
    }
    return times.size;
  }
}

interface Amount {
  time: number;
  amount: number;
}

class SumTally implements Tally {
  readonly #amounts: Amount[] = [];
  #sum = 0;

  get size(): number {
    return this.#amounts.length;
  }

  add(time: number, value: string | undefined, from: number): number {
    const amounts = this.#amounts;
    const amount = Number(value);
    amounts.push({ time, amount });
    this.#sum += amount;
    let expired = 0;
    while (expired < amounts.length && amounts[expired].time <= from) this.#sum -= amounts[expired++].amount;
    if (expired > 0) amounts.splice(0, expired);
    // Many small amounts must not push out each other: the oldest two become one
    // that is as old as the younger.
    if (amounts.length > COUNT_MAX) {
      amounts[1].amount += amounts[0].amount;
      amounts.shift();
    }
    return this.#sum;
  }
}
