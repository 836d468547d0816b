/** Literals of texts by one gram of each, so that a text is looked up in a table of numbers. */

/** A literal, and what needs it. */
export interface Part<R> {
  text: string;
  rules: R[];
}

interface Entry<R> extends Part<R> {
  /** the chosen gram */
  key: number;
  /** characters from the start of the literal to the end of its gram */
  end: number;
}

/** Slots of the table for each gram, so that few others pass, and fewest slots as a power of two. */
const SLOT_SHARE = 16;
const SLOT_BITS_MIN = 10;
/** Spreads keys over the slots: the golden ratio as a fraction of 2^32. */
const SPREAD = 0x9e3779b1;

/** Literals by one gram of each: the one that fewest others share. */
export class GramTable<R> {
  readonly #entries: Entry<R>[][] = [];
  /** 1 where a slot has entries: small, so that it stays in the cache of the processor */
  readonly #filter: Uint8Array;
  /** place in `#entries` by slot */
  readonly #places: Uint32Array;
  readonly #shift: number;
  /** bits of a key */
  readonly #mask: number;

  /** @param size characters of a gram: three or four */
  constructor(parts: readonly Part<R>[], size: number) {
    this.#mask = size === 4 ? -1 : 0xffffff;
    let bits = SLOT_BITS_MIN;
    while (2 ** bits < parts.length * SLOT_SHARE) bits++;
    this.#shift = 32 - bits;
    this.#filter = new Uint8Array(2 ** bits);
    this.#places = new Uint32Array(2 ** bits);
    for (const entry of entriesOf(parts, size, this.#mask)) this.#add(entry);
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  #add(entry: Entry<R>): void {
    const slot = Math.imul(entry.key, SPREAD) >>> this.#shift;
    if (this.#filter[slot] === 1) this.#entries[this.#places[slot]].push(entry);
    else {
      this.#filter[slot] = 1;
      this.#places[slot] = this.#entries.push([entry]) - 1;
    }
  }

  /** Calls for what needs each literal of a text; possibly more than once. */
  find(text: string, found: (rule: R) => void): void {
    const [filter, shift, mask] = [this.#filter, this.#shift, this.#mask];
    const { length } = text;
    let key = 0;
    for (let at = 0; at < length; at++) {
      key = key << 8 ^ text.charCodeAt(at);
      const slot = Math.imul(key & mask, SPREAD) >>> shift;
      if (filter[slot] === 1) this.#look(slot, key & mask, text, at + 1, found);
    }
  }

  #look(slot: number, key: number, text: string, end: number, found: (rule: R) => void): void {
    const entries = this.#entries[this.#places[slot]];
    for (let at = 0; at < entries.length; at++) {
      const entry = entries[at];
      if (entry.key !== key || end < entry.end || !text.startsWith(entry.text, end - entry.end)) continue;
      for (let rule = 0; rule < entry.rules.length; rule++) found(entry.rules[rule]);
    }
  }
}

/** Key and end of each gram of a text: a byte of each of its characters, mixed with what they have above that. */
function* gramsOf(text: string, size: number, mask: number): Generator<{ key: number; end: number }> {
  let key = 0;
  for (let at = 0; at < text.length; at++) {
    key = key << 8 ^ text.charCodeAt(at);
    if (at + 1 >= size) yield { key: key & mask, end: at + 1 };
  }
}

function entriesOf<R>(parts: readonly Part<R>[], size: number, mask: number): Entry<R>[] {
  const counts = new Map<number, number>();
  for (const { text } of parts) {
    for (const { key } of gramsOf(text, size, mask)) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return parts.map(({ text, rules }) => {
    const grams = [...gramsOf(text, size, mask)];
    const rarest = grams.reduce((a, b) => counts.get(b.key)! < counts.get(a.key)! ? b : a);
    return { text, rules, ...rarest };
  });
}
