/** Literals of texts by one gram of each, so that a text is looked up in tables of numbers. */

/** A literal, and the rules that need it. */
export interface Part<R> {
  text: string;
  rules: R[];
}

/** Characters of a gram of a literal that has more than three, and of one that has three. */
const [LONG, SHORT] = [4, 3];
/** A key has a byte of each character of its gram, mixed with their higher bits. */
const BYTE = 8;
/** Bits of a filter for each gram, of which a key sets two, and fewest bits: both as powers of two. */
const FILTER_SHARE = 4;
const FILTER_MIN = 10;
/** Bits of a number, as a power of two. */
const WORD = 5;
/** Spreads keys over tables: the golden ratio as a fraction of 2^32. */
const SPREAD = 0x9e3779b1 | 0;

/** Numbers of a slot: a key, and where its literals begin and end. */
const SLOT = 3;
/** Numbers of a literal: characters to the end of its gram, its length, first and last character, part. */
const LITERAL = 4;

/** A literal, and the characters from its start to the end of its gram. */
interface Entry<R> {
  part: Part<R>;
  end: number;
}

/**
 * Literals of one length of grams: each by the one that fewest others share. The tables are numbers, side
 * by side: with many rules, each object on the way to one would be read from slow memory.
 */
class GramTable<R> {
  readonly size: number;
  /** bits of the keys that are there: so few bytes that they stay in the nearest cache of the processor */
  readonly filter: Int32Array;
  readonly shift: number;
  readonly #slots: Int32Array;
  readonly #slotShift: number;
  readonly #literals: Int32Array;
  readonly #parts: readonly Part<R>[];

  constructor(parts: readonly Part<R>[], size: number) {
    this.size = parts.length;
    this.#parts = parts;
    let bits = FILTER_MIN;
    while (2 ** bits < parts.length << FILTER_SHARE) bits++;
    this.shift = 32 - (bits - WORD);
    this.filter = new Int32Array(2 ** (bits - WORD));
    const byKey = Map.groupBy(entriesOf(parts, size), ({ key }) => key);
    let slotBits = 1;
    while (2 ** slotBits < 2 * byKey.size) slotBits++;
    this.#slotShift = 32 - slotBits;
    this.#slots = new Int32Array(2 ** slotBits * SLOT);
    this.#literals = new Int32Array(parts.length * LITERAL);
    const indexes = new Map(parts.map((part, at) => [part, at]));
    let at = 0;
    for (const [key, entries] of byKey) {
      const hash = Math.imul(key, SPREAD);
      this.filter[hash >>> this.shift] |= bitsOf(hash, this.shift);
      const start = at;
      for (const { entry: { part, end } } of entries) {
        const { text } = part;
        this.#literals.set([end, text.length, endsOf(text, 0, text.length - 1), indexes.get(part)!], at);
        at += LITERAL;
      }
      this.#slots.set([key, start, at], this.#slotOf(key, hash));
    }
  }

  /** Place of a key's slot, or of the free one where it belongs. */
  #slotOf(key: number, hash: number): number {
    const slots = this.#slots;
    let at = (hash >>> this.#slotShift) * SLOT;
    while (slots[at + 2] !== 0 && slots[at] !== key) {
      at += SLOT;
      if (at === slots.length) at = 0;
    }
    return at;
  }

  /** Compares the text with the literals of a gram that ends at a place. */
  look(key: number, hash: number, text: string, at: number, found: (rule: R) => void): void {
    const slot = this.#slotOf(key, hash);
    const literals = this.#literals;
    const last = this.#slots[slot + 2];
    for (let entry = this.#slots[slot + 1]; entry < last; entry += LITERAL) {
      const from = at + 1 - literals[entry];
      const to = from + literals[entry + 1];
      // The comparison itself reads another text.
      if (from < 0 || to > text.length || endsOf(text, from, to - 1) !== literals[entry + 2]) continue;
      const part = this.#parts[literals[entry + 3]];
      // Five times as fast as startsWith.
      if (text.slice(from, to) !== part.text) continue;
      const { rules } = part;
      for (let rule = 0; rule < rules.length; rule++) found(rules[rule]);
    }
  }
}

/** Bits of a key in its number of a filter: two, which are as good as four times the memory. */
function bitsOf(hash: number, shift: number): number {
  return 1 << (hash >>> shift - WORD) | 1 << (hash >>> shift - 2 * WORD);
}

/** Two characters of a text in one number. */
function endsOf(text: string, first: number, last: number): number {
  return text.charCodeAt(first) << 16 | text.charCodeAt(last);
}

/** Finds literals in a text that is gone through once, however many literals there are. */
export class GramIndex<R> {
  readonly #long: GramTable<R>;
  readonly #short: GramTable<R>;

  /** @param parts literals of three characters or more */
  constructor(parts: readonly Part<R>[]) {
    this.#long = new GramTable(parts.filter(({ text }) => text.length >= LONG), LONG);
    this.#short = new GramTable(parts.filter(({ text }) => text.length === SHORT), SHORT);
  }

  /** Calls for each rule whose literal is in a text; possibly more than once. */
  find(text: string, found: (rule: R) => void): void {
    if (this.#short.size > 0) this.#findBoth(text, found);
    else if (this.#long.size > 0) this.#findLong(text, found);
  }

  #findLong(text: string, found: (rule: R) => void): void {
    const { filter, shift } = this.#long;
    const { length } = text;
    let key = 0;
    for (let at = 0; at < length; at++) {
      key = key << BYTE ^ text.charCodeAt(at);
      const hash = Math.imul(key, SPREAD);
      const bits = bitsOf(hash, shift);
      if ((filter[hash >>> shift] & bits) === bits) this.#long.look(key, hash, text, at, found);
    }
  }

  #findBoth(text: string, found: (rule: R) => void): void {
    const { filter, shift } = this.#long;
    const { filter: filterShort, shift: shiftShort } = this.#short;
    const { length } = text;
    let key = 0;
    for (let at = 0; at < length; at++) {
      key = key << BYTE ^ text.charCodeAt(at);
      const hash = Math.imul(key, SPREAD);
      const bits = bitsOf(hash, shift);
      if ((filter[hash >>> shift] & bits) === bits) this.#long.look(key, hash, text, at, found);
      const short = key << BYTE;
      const hashShort = Math.imul(short, SPREAD);
      const bitsShort = bitsOf(hashShort, shiftShort);
      if ((filterShort[hashShort >>> shiftShort] & bitsShort) === bitsShort) {
        this.#short.look(short, hashShort, text, at, found);
      }
    }
  }
}

/** Keys of the grams of a text. */
function keysOf(text: string, size: number): number[] {
  const keys: number[] = [];
  let key = 0;
  for (let at = 0; at < text.length; at++) {
    key = key << BYTE ^ text.charCodeAt(at);
    if (at + 1 >= size) keys.push(size === SHORT ? key << BYTE : key);
  }
  return keys;
}

function entriesOf<R>(parts: readonly Part<R>[], size: number): { key: number; entry: Entry<R> }[] {
  const counts = new Map<number, number>();
  for (const { text } of parts) {
    for (const key of keysOf(text, size)) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return parts.map((part) => {
    const keys = keysOf(part.text, size);
    const key = keys.reduce((a, b) => counts.get(b)! < counts.get(a)! ? b : a);
    return { key, entry: { part, end: keys.indexOf(key) + size } };
  });
}
