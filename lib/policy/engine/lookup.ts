/** Index from the values of an event to the few rules that can match it. */
import { type Event, type EventType, type Getter, getterOf } from "../../event/mod.ts";
import type { CompiledRule } from "./compile.ts";
import { CONTAINS_MIN, type Probe, TYPES } from "./condition.ts";

/** Maximum text length for the gram index, in characters; longer texts run every `contains` rule. */
const GRAM_TEXT_MAX = 4096;

/** Index of the rules for one event type. */
export class TypeIndex {
  /** rules without a probe, in order; run on every event */
  readonly always: CompiledRule[] = [];
  readonly #fields = new Map<string, FieldIndex>();
  #list: FieldIndex[] = [];

  add(rule: CompiledRule, probes: Probe[] | undefined): void {
    if (!probes) {
      this.always.push(rule);
      return;
    }
    for (const probe of probes) {
      let field = this.#fields.get(probe.path);
      if (!field) {
        this.#fields.set(probe.path, field = new FieldIndex(getterOf(probe.path)));
        this.#list = [...this.#fields.values()];
      }
      field.add(probe, rule);
    }
  }

  /** Finds the rules whose probes hit, in order and without duplicates. */
  find(event: Event): CompiledRule[] {
    const hits: CompiledRule[] = [];
    for (const field of this.#list) field.collect(event, hits);
    if (hits.length < 2) return hits;
    hits.sort((a, b) => a.order - b.order);
    return hits.filter((rule, at) => rule !== hits[at - 1]);
  }
}

/** Index by the value of one field. */
class FieldIndex {
  readonly #get: Getter;
  readonly #equals = new Map<unknown, CompiledRule[]>();
  readonly #prefixes = new AffixIndex((text, length) => text.slice(0, length));
  readonly #suffixes = new AffixIndex((text, length) => text.slice(-length));
  readonly #grams = new GramIndex();

  constructor(get: Getter) {
    this.#get = get;
  }

  add({ op, values }: Probe, rule: CompiledRule): void {
    for (const value of values) {
      if (op === "equals") push(this.#equals, value, rule);
      else if (op === "prefix") this.#prefixes.add(value as string, rule);
      else if (op === "suffix") this.#suffixes.add(value as string, rule);
      else this.#grams.add(value as string, rule);
    }
  }

  collect(event: Event, hits: CompiledRule[]): void {
    const value = this.#get(event);
    if (value === undefined) return;
    append(hits, this.#equals.get(value));
    if (typeof value !== "string") return;
    this.#prefixes.collect(value, hits);
    this.#suffixes.collect(value, hits);
    this.#grams.collect(value, hits);
  }
}

/** Rules by a prefix or suffix of the value; one lookup per distinct length. */
class AffixIndex {
  readonly #rules = new Map<string, CompiledRule[]>();
  #lengths: number[] = [];
  #hasEmpty = false;

  constructor(readonly cut: (text: string, length: number) => string) {}

  add(affix: string, rule: CompiledRule): void {
    push(this.#rules, affix, rule);
    if (affix === "") this.#hasEmpty = true;
    else if (!this.#lengths.includes(affix.length)) {
      this.#lengths.push(affix.length);
      this.#lengths.sort((a, b) => a - b);
    }
  }

  collect(text: string, hits: CompiledRule[]): void {
    if (this.#hasEmpty) append(hits, this.#rules.get(""));
    for (const length of this.#lengths) {
      if (length > text.length) return;
      append(hits, this.#rules.get(this.cut(text, length)));
    }
  }
}

/** Rules by one gram of a text contained in the value, the gram shared by the fewest rules. */
class GramIndex {
  readonly #rules = new Map<number, CompiledRule[]>();
  readonly #all: CompiledRule[] = [];

  add(text: string, rule: CompiledRule): void {
    let best = gramAt(text, 0);
    for (let at = 1; at + CONTAINS_MIN <= text.length; at++) {
      const gram = gramAt(text, at);
      if ((this.#rules.get(gram)?.length ?? 0) < (this.#rules.get(best)?.length ?? 0)) best = gram;
    }
    push(this.#rules, best, rule);
    this.#all.push(rule);
  }

  collect(text: string, hits: CompiledRule[]): void {
    if (!this.#all.length) return;
    if (text.length > GRAM_TEXT_MAX) return append(hits, this.#all);
    for (let at = 0; at + CONTAINS_MIN <= text.length; at++) append(hits, this.#rules.get(gramAt(text, at)));
  }
}

/** Hash of the {@linkcode CONTAINS_MIN} characters at `at`; different grams may collide. */
function gramAt(text: string, at: number): number {
  return text.charCodeAt(at) ^ text.charCodeAt(at + 1) << 7 ^ text.charCodeAt(at + 2) << 14 ^
    text.charCodeAt(at + 3) << 21;
}

function push<K>(map: Map<K, CompiledRule[]>, key: K, rule: CompiledRule): void {
  const rules = map.get(key);
  if (rules) rules.push(rule);
  else map.set(key, [rule]);
}

function append(hits: CompiledRule[], rules: CompiledRule[] | undefined): void {
  if (rules) { for (let at = 0; at < rules.length; at++) hits.push(rules[at]); }
}

/** Builds one index per event type over ordered rules. */
export function buildIndex(rules: readonly CompiledRule[]): Map<EventType, TypeIndex> {
  const shared = new Map<string, number>();
  for (const { alternatives } of rules) {
    for (const probes of alternatives) {
      for (const key of keysOf(probes)) shared.set(key, (shared.get(key) ?? 0) + 1);
    }
  }
  const selected = rules.map(({ alternatives }) => mostSelective(alternatives, shared));
  return new Map(TYPES.map((type, bit) => {
    const index = new TypeIndex();
    rules.forEach((rule, at) => {
      if (rule.types & 1 << bit) index.add(rule, selected[at]);
    });
    return [type, index];
  }));
}

/** Alternative whose keys are shared by the fewest rules. */
function mostSelective(alternatives: Probe[][], shared: ReadonlyMap<string, number>): Probe[] | undefined {
  let best: Probe[] | undefined;
  let bestCost = Infinity;
  for (const probes of alternatives) {
    let cost = 0;
    for (const key of keysOf(probes)) cost = Math.max(cost, shared.get(key)!);
    if (probes.some(({ op }) => op === "contains")) cost *= 2;
    if (cost < bestCost) [best, bestCost] = [probes, cost];
  }
  return best;
}

function keysOf(probes: Probe[]): string[] {
  return probes.flatMap(({ path, op, values }) => values.map((value) => `${path} ${op} ${value}`));
}
