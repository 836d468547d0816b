import type { MatchValue } from "../ir.ts";

/** Longer texts share one place in the table of lengths. */
const LENGTH_MAX = 255;
/** Places of the filter, at least; a power of two. */
const FILTER_MIN = 1024;
/** Places of the filter for each text. */
const FILTER_SHARE = 16;

/**
 * A map by values of events. Most values of most events are in no rule, and hashing a text that was just parsed costs
 * more than all else that a match does: so a text is looked up only when one of its length is there, and one with the
 * same few characters.
 */
export class ValueTable<T> {
  readonly #map: ReadonlyMap<MatchValue, T>;
  readonly #lengths = new Uint8Array(LENGTH_MAX + 1);
  readonly #filter: Uint8Array;
  readonly #mask: number;

  constructor(map: ReadonlyMap<MatchValue, T>) {
    this.#map = map;
    let places = FILTER_MIN;
    while (places < map.size * FILTER_SHARE) places *= 2;
    this.#filter = new Uint8Array(places);
    this.#mask = places - 1;
    for (const value of map.keys()) {
      if (typeof value !== "string") continue;
      this.#lengths[Math.min(value.length, LENGTH_MAX)] = 1;
      this.#filter[sample(value) & this.#mask] = 1;
    }
  }

  /** What stands for this value; nothing does for what cannot be compared. */
  get(value: unknown): T | undefined {
    if (typeof value === "string") {
      const { length } = value;
      if (this.#lengths[length < LENGTH_MAX ? length : LENGTH_MAX] === 0) return undefined;
      if (this.#filter[sample(value) & this.#mask] === 0) return undefined;
    } else if (value === undefined) return undefined;
    return this.#map.get(value as MatchValue);
  }
}

/** A number made of a text's length and of four of its characters. */
function sample(text: string): number {
  const { length } = text;
  if (length === 0) return 0;
  return length * 131 ^ text.charCodeAt(length - 1) * 7 ^ text.charCodeAt(length >> 1) * 31 ^
    text.charCodeAt(length >> 2) * 61 ^ text.charCodeAt((length * 3) >> 2) * 17;
}
