/** Literals of texts by one gram of each, so that a text is looked up in tables of numbers. */

/** A literal, and the rules that need it. */
export interface Part<R> {
  text: string;
  rules: R[];
}

interface Entry<R> extends Part<R> {
  /** characters from the start of the literal to the end of its gram */
  end: number;
}

/** Characters of a gram of a literal that has more than three, and of one that has three. */
const [LONG, SHORT] = [4, 3];
/** A key has a byte of each character of its gram, mixed with their higher bits. */
const BYTE = 8;
/** Bits of a filter for each gram, so that few others pass, and fewest bits: both as powers of two. */
const FILTER_SHARE = 6;
const FILTER_MIN = 10;
/** Spreads keys over a filter: the golden ratio as a fraction of 2^32. */
const SPREAD = 0x9e3779b1 | 0;

/** Literals of one length of grams: each by the one that fewest others share. */
class GramTable<R> {
  readonly entries = new Map<number, Entry<R>[]>();
  /** bits of the keys that are there: so few bytes that they stay in the nearest cache of the processor */
  readonly filter: Int32Array;
  readonly shift: number;

  constructor(parts: readonly Part<R>[], size: number) {
    let bits = FILTER_MIN;
    while (2 ** bits < parts.length << FILTER_SHARE) bits++;
    this.shift = 32 - bits;
    this.filter = new Int32Array(2 ** bits / 32);
    for (const { key, entry } of entriesOf(parts, size)) {
      const slot = Math.imul(key, SPREAD) >>> this.shift;
      this.filter[slot >> 5] |= 1 << slot;
      const others = this.entries.get(key);
      if (others) others.push(entry);
      else this.entries.set(key, [entry]);
    }
  }
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
    if (this.#short.entries.size > 0) this.#findBoth(text, found);
    else if (this.#long.entries.size > 0) this.#findLong(text, found);
  }

  #findLong(text: string, found: (rule: R) => void): void {
    const { filter, shift } = this.#long;
    const { length } = text;
    let key = 0;
    for (let at = 0; at < length; at++) {
      key = key << BYTE ^ text.charCodeAt(at);
      const slot = Math.imul(key, SPREAD) >>> shift;
      if ((filter[slot >> 5] >>> slot & 1) !== 0) look(this.#long, key, text, at, found);
    }
  }

  #findBoth(text: string, found: (rule: R) => void): void {
    const { filter, shift } = this.#long;
    const { filter: filterShort, shift: shiftShort } = this.#short;
    const { length } = text;
    let key = 0;
    for (let at = 0; at < length; at++) {
      key = key << BYTE ^ text.charCodeAt(at);
      const slot = Math.imul(key, SPREAD) >>> shift;
      if ((filter[slot >> 5] >>> slot & 1) !== 0) look(this.#long, key, text, at, found);
      const short = key << BYTE;
      const slotShort = Math.imul(short, SPREAD) >>> shiftShort;
      if ((filterShort[slotShort >> 5] >>> slotShort & 1) !== 0) look(this.#short, short, text, at, found);
    }
  }
}

/** Compares the text with the literals of a gram that ends at a place. */
function look<R>(table: GramTable<R>, key: number, text: string, at: number, found: (rule: R) => void): void {
  const entries = table.entries.get(key);
  if (!entries) return;
  for (let place = 0; place < entries.length; place++) {
    const { text: literal, end, rules } = entries[place];
    const from = at + 1 - end;
    if (from < 0 || !text.startsWith(literal, from)) continue;
    for (let rule = 0; rule < rules.length; rule++) found(rules[rule]);
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
  return parts.map(({ text, rules }) => {
    const keys = keysOf(text, size);
    const key = keys.reduce((a, b) => counts.get(b)! < counts.get(a)! ? b : a);
    return { key, entry: { text, rules, end: keys.indexOf(key) + size } };
  });
}
