/** Index from literals of texts to the rules that need them. */
import { ValueTable } from "../../match/value_table.ts";
import { GramIndex } from "./gram.ts";
import { type Literal, type Requirement, strength } from "./literal.ts";

/** Finds literals in texts: whole ones by a look-up, parts by going through the text once. */
export class TextIndex<R> {
  readonly #exact: ValueTable<R[]> | undefined;
  readonly #parts: GramIndex<R> | undefined;

  constructor(literals: readonly { literal: Literal; rule: R }[]) {
    const exact = new Map<string, R[]>();
    const parts = new Map<string, R[]>();
    for (const { literal: { text, isExact }, rule } of literals) {
      const table = isExact ? exact : parts;
      const rules = table.get(text);
      if (!rules) table.set(text, [rule]);
      else if (rules.at(-1) !== rule) rules.push(rule);
    }
    if (exact.size > 0) this.#exact = new ValueTable(exact);
    if (parts.size > 0) this.#parts = new GramIndex([...parts].map(([text, rules]) => ({ text, rules })));
  }

  /** Calls for each rule of which a literal is found; possibly more than once. */
  find(folded: string, found: (rule: R) => void): void {
    const rules = this.#exact?.get(folded);
    if (rules) { for (let at = 0; at < rules.length; at++) found(rules[at]); }
    this.#parts?.find(folded, found);
  }
}

/**
 * Chooses for each rule the requirement whose literals fewest rules share; on a
 * tie, the one with longer literals.
 */
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
