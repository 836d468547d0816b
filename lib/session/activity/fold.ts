/** Programs recorded one by one: so many at once, and then so many per second (docs/contracts.md §14). */
const BURST = 4000;
const PER_SECOND = 20;
/** Time for which further ones are counted before the counts are recorded, in `ms` (docs/contracts.md §14). */
export const FOLD_MS = 10_000;
/** Most programs with a count of their own, and most that are new in that time and recorded all the same. */
const COUNTED_MAX = 256;
/** Name of the others. */
const OTHERS = "(other programs)";

/** Counts of one program that is not recorded each time. */
export interface Folded {
  count: number;
  failed: number;
}

/** Bounds the record of a guest that starts very many programs, and keeps the counts whole. */
export class Fold {
  readonly #now: () => number;
  #tokens = BURST;
  #filledAt: number;
  /** executables that were recorded since the counts were */
  readonly #seen = new Set<string>();
  #counts = new Map<string, Folded>();

  /** @param now in `ms` */
  constructor(now = () => performance.now()) {
    this.#now = now;
    this.#filledAt = now();
  }

  /** Whether a start is recorded; else it is counted. One that was not seen for a while is recorded in any flood. */
  admits(executable: string): boolean {
    const now = this.#now();
    this.#tokens = Math.min(BURST, this.#tokens + (now - this.#filledAt) / 1000 * PER_SECOND);
    this.#filledAt = now;
    const isNew = !this.#seen.has(executable) && this.#seen.size < COUNTED_MAX;
    if (isNew) this.#seen.add(executable);
    if (this.#tokens >= 1) {
      this.#tokens--;
      return true;
    }
    if (isNew) return true;
    this.#countOf(executable).count++;
    return false;
  }

  /** Notes that a start which was counted has ended with a failure. */
  failed(executable: string): void {
    this.#countOf(executable).failed++;
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  /** Takes the counts, by executable. */
  take(): Map<string, Folded> {
    const counts = this.#counts;
    this.#counts = new Map();
    this.#seen.clear();
    return counts;
  }

  #countOf(executable: string): Folded {
    const name = this.#counts.has(executable) || this.#counts.size < COUNTED_MAX ? executable : OTHERS;
    const counts = this.#counts.get(name) ?? { count: 0, failed: 0 };
    this.#counts.set(name, counts);
    return counts;
  }
}
