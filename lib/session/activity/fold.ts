/**
 * Recorded one by one: so many at once, and then so many per second (docs/design/contracts/14-limits.md §14).
 */
const BURST = 4000;
const PER_SECOND = 20;
/**
 * Time for which further ones are counted before the counts are recorded, in `ms`
 * (docs/design/contracts/14-limits.md §14).
 */
export const FOLD_MS = 10_000;
/** Most names with a count of their own, and most that are new in that time and recorded all the same. */
const COUNTED_MAX = 256;
/** Counts of events that are not recorded one by one. */
export interface Folded {
  count: number;
  failed: number;
}

/** Bounds the record of a guest that does very much, and keeps the counts whole, by name. */
export class Fold {
  readonly #now: () => number;
  readonly #others: (name: string) => string;
  #tokens = BURST;
  #filledAt: number;
  /** names that were recorded since the counts were */
  readonly #seen = new Set<string>();
  #counts = new Map<string, Folded>();

  /**
   * @param others a common name for names beyond the ones counted separately
   * @param now in `ms`
   */
  constructor(others: (name: string) => string, now = () => performance.now()) {
    this.#others = others;
    this.#now = now;
    this.#filledAt = now();
  }

  /**
   * True if one is recorded; else it is counted. A name that was not seen for a
   * while is recorded in any flood.
   */
  admits(named: string): boolean {
    const now = this.#now();
    this.#tokens = Math.min(BURST, this.#tokens + (now - this.#filledAt) / 1000 * PER_SECOND);
    this.#filledAt = now;
    const isNew = !this.#seen.has(named) && this.#seen.size < COUNTED_MAX;
    if (isNew) this.#seen.add(named);
    if (this.#tokens >= 1) {
      this.#tokens--;
      return true;
    }
    if (isNew) return true;
    this.#countOf(named).count++;
    return false;
  }

  /** Notes that one which was counted has failed. */
  failed(named: string): void {
    this.#countOf(named).failed++;
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  /** Takes the counts, by name. */
  take(): Map<string, Folded> {
    const counts = this.#counts;
    this.#counts = new Map();
    this.#seen.clear();
    return counts;
  }

  #countOf(named: string): Folded {
    const name = this.#counts.has(named) || this.#counts.size < COUNTED_MAX ? named : this.#others(named);
    const counts = this.#counts.get(name) ?? { count: 0, failed: 0 };
    this.#counts.set(name, counts);
    return counts;
  }
}
