/**
 * Folds floods of a guest's events into counts by name, such as a program or a folder
 * (docs/design/contracts/14-limits.md §14).
 */

/** Events recorded one by one: at once, and per second after that. */
const BURST = 4000;
const PER_SECOND = 20;
/** Time between two records of the counts, in `ms`. */
export const FOLD_MS = 10_000;
/** Most names counted separately, and most new names recorded in spite of a flood, between two records. */
const COUNTED_MAX = 256;

/** Events of one name that were counted instead of recorded. */
export interface Folded {
  count: number;
  failed: number;
}

/** Decides which events of a busy guest are recorded, and counts the others. */
export class Fold {
  readonly #now: () => number;
  readonly #others: (name: string) => string;
  #tokens = BURST;
  #filledAt: number;
  /** new names since the counts were last recorded */
  readonly #seen = new Set<string>();
  #counts = new Map<string, Folded>();

  /**
   * @param others common name for a name beyond the limit of separate counts
   * @param now in `ms`
   */
  constructor(others: (name: string) => string, now = () => performance.now()) {
    this.#others = others;
    this.#now = now;
    this.#filledAt = now();
  }

  /**
   * True if an event of this name is to be recorded; otherwise it is counted. A new name is recorded even in
   * a flood.
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

  /** Counts a failure of an event that was counted. */
  failed(named: string): void {
    this.#countOf(named).failed++;
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  /** Returns the counts by name, and starts new ones. */
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
