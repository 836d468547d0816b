/** Look-up of values of events, most of which are in no rule. */
import type { MatchValue } from "../ir/ir.ts";

/** Strings of this length or more share one slot in the length table. */
const LENGTH_MAX = 255;
/** Minimum slots of the filter; a power of two. */
const FILTER_MIN = 1024;
/** Filter slots per value. */
const FILTER_SHARE = 16;

/**
 * Map keyed by event values. Most values are in no rule, and hashing a newly parsed string costs more
 * than the rest of a match, so a string is looked up only if the length table and the filter of
 * sampled characters both contain it.
 */
export class ValueTable<T> {
  readonly #map: ReadonlyMap<MatchValue, T>;
  readonly #lengths = new Uint8Array(LENGTH_MAX + 1);
  readonly #filter: Uint8Array;
  readonly #mask: number;

  constructor(map: ReadonlyMap<MatchValue, T>) {
    this.#map = map;
    let slots = FILTER_MIN;
    while (slots < map.size * FILTER_SHARE) slots *= 2;
    this.#filter = new Uint8Array(slots);
    this.#mask = slots - 1;
    for (const value of map.keys()) {
      if (typeof value !== "string") continue;
      this.#lengths[Math.min(value.length, LENGTH_MAX)] = 1;
      this.#filter[fingerprint(value) & this.#mask] = 1;
    }
  }

  /** Looks up a value; values that cannot be compared have no entry. */
  get(value: unknown): T | undefined {
    if (typeof value === "string") {
      const { length } = value;
      if (this.#lengths[length < LENGTH_MAX ? length : LENGTH_MAX] === 0) return undefined;
      if (this.#filter[fingerprint(value) & this.#mask] === 0) return undefined;
    } else if (value === undefined) return undefined;
    return this.#map.get(value as MatchValue);
  }
}

/** Hashes a string's length and four of its characters. */
function fingerprint(text: string): number {
  const { length } = text;
  if (length === 0) return 0;
  return length * 131 ^ text.charCodeAt(length - 1) * 7 ^ text.charCodeAt(length >> 1) * 31 ^
    text.charCodeAt(length >> 2) * 61 ^ text.charCodeAt((length * 3) >> 2) * 17;
}
