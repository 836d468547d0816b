/** Index from literals of texts to the rules that need them. */
import { GRAM, type Literal, type Requirement, strength } from "./literal.ts";

/** Bits of the filter before the table of grams. */
const FILTER_BITS = 16;
const FILTER_MASK = (1 << FILTER_BITS) - 1;

interface Part<R> {
  text: string;
  /** place of the gram in the text */
  offset: number;
  rules: R[];
}

/**
 * Finds literals in texts: each has one gram of three characters in a table, the one that fewest others share, so that
 * a text is gone through once, however many literals there are.
 */
export class TextIndex<R> {
  readonly #exact = new Map<string, R[]>();
  readonly #grams = new Map<number, Part<R>[]>();
  readonly #filter = new Uint8Array(1 << FILTER_BITS);

  constructor(literals: readonly { literal: Literal; rule: R }[]) {
    const parts = new Map<string, R[]>();
    for (const { literal: { text, isExact }, rule } of literals) {
      const table = isExact ? this.#exact : parts;
      const rules = table.get(text);
      if (!rules) table.set(text, [rule]);
      else if (rules.at(-1) !== rule) rules.push(rule);
    }
    const counts = new Map<number, number>();
    for (const text of parts.keys()) {
      for (let at = 0; at + GRAM <= text.length; at++) {
        const gram = gramAt(text, at);
        counts.set(gram, (counts.get(gram) ?? 0) + 1);
      }
    }
    for (const [text, rules] of parts) this.#addPart(text, rules, counts);
  }

  #addPart(text: string, rules: R[], counts: ReadonlyMap<number, number>): void {
    let [offset, least] = [0, Infinity];
    for (let at = 0; at + GRAM <= text.length; at++) {
      const count = counts.get(gramAt(text, at))!;
      if (count < least) [offset, least] = [at, count];
    }
    const gram = gramAt(text, offset);
    const others = this.#grams.get(gram);
    if (others) others.push({ text, offset, rules });
    else this.#grams.set(gram, [{ text, offset, rules }]);
    this.#filter[gram & FILTER_MASK] = 1;
  }

  /** Calls for each rule of which a literal is found; possibly more than once. */
  find(folded: string, found: (rule: R) => void): void {
    if (this.#exact.size > 0) this.#exact.get(folded)?.forEach(found);
    if (this.#grams.size === 0) return;
    const filter = this.#filter;
    const { length } = folded;
    let [a, b] = [folded.charCodeAt(0), folded.charCodeAt(1)];
    for (let at = 2; at < length; at++) {
      const c = folded.charCodeAt(at);
      const gram = gramOf(a, b, c);
      if (filter[gram & FILTER_MASK] === 1) this.#look(gram, folded, at - 2, found);
      a = b;
      b = c;
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

function gramOf(a: number, b: number, c: number): number {
  return Math.imul(a, 0x2c1b3c6d) ^ Math.imul(b, 0x297a2d39) ^ Math.imul(c, 0x1b56c4e9) ^
    (a << 7 ^ b << 3) >>> 0;
}

function gramAt(text: string, at: number): number {
  return gramOf(text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2));
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
