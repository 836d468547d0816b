/** Index from literals of texts to the rules that need them. */
import { GRAM, type Literal, type Requirement, strength } from "./literal.ts";

/** Entries of a filter for each gram, so that few others pass it, and fewest entries; a power of two. */
const FILTER_SHARE = 16;
const FILTER_MIN = 1024;

interface Part<R> {
  text: string;
  /** place of the gram in the text */
  offset: number;
  rules: R[];
}

/** Finds literals in texts: a text is gone through once for each length of grams, however many literals there are. */
export class TextIndex<R> {
  readonly #exact = new Map<string, R[]>();
  readonly #long: GramTable<R>;
  readonly #short: GramTable<R>;

  constructor(literals: readonly { literal: Literal; rule: R }[]) {
    const parts = new Map<string, R[]>();
    for (const { literal: { text, isExact }, rule } of literals) {
      const table = isExact ? this.#exact : parts;
      const rules = table.get(text);
      if (!rules) table.set(text, [rule]);
      else if (rules.at(-1) !== rule) rules.push(rule);
    }
    this.#long = new GramTable([...parts].filter(([text]) => text.length > GRAM), GRAM + 1);
    this.#short = new GramTable([...parts].filter(([text]) => text.length === GRAM), GRAM);
  }

  /** Calls for each rule of which a literal is found; possibly more than once. */
  find(folded: string, found: (rule: R) => void): void {
    if (this.#exact.size > 0) this.#exact.get(folded)?.forEach(found);
    this.#long.find(folded, found);
    this.#short.find(folded, found);
  }
}

/** Literals by one gram of each: the one that fewest others share. */
class GramTable<R> {
  readonly #grams = new Map<number, Part<R>[]>();
  readonly #filter: Uint8Array;
  readonly #mask: number;

  /** @param size characters of a gram: three or four */
  constructor(literals: readonly [text: string, rules: R[]][], readonly size: number) {
    const counts = new Map<number, number>();
    for (const [text] of literals) {
      for (let at = 0; at + size <= text.length; at++) {
        const gram = this.#gramAt(text, at);
        counts.set(gram, (counts.get(gram) ?? 0) + 1);
      }
    }
    for (const [text, rules] of literals) this.#add(text, rules, counts);
    let slots = FILTER_MIN;
    while (slots < this.#grams.size * FILTER_SHARE) slots *= 2;
    this.#filter = new Uint8Array(slots);
    this.#mask = slots - 1;
    for (const gram of this.#grams.keys()) this.#filter[gram & this.#mask] = 1;
  }

  #add(text: string, rules: R[], counts: ReadonlyMap<number, number>): void {
    let [offset, least] = [0, Infinity];
    for (let at = 0; at + this.size <= text.length; at++) {
      const count = counts.get(this.#gramAt(text, at))!;
      if (count < least) [offset, least] = [at, count];
    }
    const gram = this.#gramAt(text, offset);
    const others = this.#grams.get(gram);
    if (others) others.push({ text, offset, rules });
    else this.#grams.set(gram, [{ text, offset, rules }]);
  }

  #gramAt(text: string, at: number): number {
    const [a, b, c] = [text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2)];
    return gramOf(a, b, c, this.size > GRAM ? text.charCodeAt(at + GRAM) : 0);
  }

  find(folded: string, found: (rule: R) => void): void {
    if (this.#grams.size === 0) return;
    const [filter, mask, isLong] = [this.#filter, this.#mask, this.size > GRAM];
    const last = folded.length - this.size;
    let [a, b, c] = [folded.charCodeAt(0), folded.charCodeAt(1), folded.charCodeAt(2)];
    for (let at = 0; at <= last; at++) {
      const d = folded.charCodeAt(at + GRAM);
      const gram = gramOf(a, b, c, isLong ? d : 0);
      if (filter[gram & mask] === 1) this.#look(gram, folded, at, found);
      a = b;
      b = c;
      c = d;
    }
  }

  #look(gram: number, folded: string, at: number, found: (rule: R) => void): void {
    const parts = this.#grams.get(gram);
    if (!parts) return;
    for (let index = 0; index < parts.length; index++) {
      const { text, offset, rules } = parts[index];
      if (at >= offset && folded.startsWith(text, at - offset)) rules.forEach(found);
    }
  }
}

/** Mixes four characters into a small integer, which needs no memory; a filter takes the lower bits. */
function gramOf(a: number, b: number, c: number, d: number): number {
  const sum = a + Math.imul(b, 0x3d) + Math.imul(c, 0x1c73) + Math.imul(d, 0x5bd1e);
  return (sum ^ sum >>> 11) & 0x3fffffff;
}

/** Chooses for each rule the requirement whose literals fewest rules share; on a tie, the one with longer literals. */
export function choose<R>(
  rules: readonly { rule: R; requirements: readonly Requirement[] }[],
): { rule: R; requirement?: Requirement }[] {
  const counts = new Map<string, number>();
  for (const { requirements } of rules) {
    for (const key of new Set(requirements.flat().map(keyOf))) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const cost = (requirement: Requirement) =>
    requirement.reduce((most, literal) => Math.max(most, counts.get(keyOf(literal))!), 0);
  return rules.map(({ rule, requirements }) => {
    let best: Requirement | undefined;
    for (const requirement of requirements) {
      if (best === undefined) best = requirement;
      else {
        const [mine, its] = [cost(requirement), cost(best)];
        if (mine < its || mine === its && strength(requirement) > strength(best)) best = requirement;
      }
    }
    return best ? { rule, requirement: best } : { rule };
  });
}

function keyOf({ on, text, isExact }: Literal): string {
  return `${on?.join("|") ?? ""}\0${isExact ? "=" : "~"}${text}`;
}
