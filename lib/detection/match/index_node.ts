/** Index from event values to matching rules. */
import { type Event, getterOf } from "../../event/mod.ts";
import type { MatchValue } from "../ir/ir.ts";
import { ValueTable } from "./value_table.ts";

/** Matcher input: a complete or partial event with at least its type. */
export interface Matchable {
  common: { event_type: string; event_id?: string; timestamp_unix_ms?: number };
}

/** Compiled test of a rule. */
export interface Test {
  path: string;
  get(event: Matchable): unknown;
  values: ReadonlySet<MatchValue>;
}

/** Builds a test with a precompiled getter. */
export function testOf(path: string, values: readonly MatchValue[]): Test {
  const get = getterOf(path);
  return { path, get: (event) => get(event as unknown as Event), values: new Set(values) };
}

/** Rule with the tests that the index levels above have not covered. */
export interface IndexEntry<R> {
  rule: R;
  tests: readonly Test[];
}

/** Maximum number of rules that are tested one by one instead of indexed. */
const LEAF_RULES = 6;
/** Maximum entries of one index, one per rule and value; rules beyond it are tested one by one. */
const ENTRIES_MAX = 2_000_000;

/**
 * One level of the index. Its rules are tested one by one, or grouped by the values of one of their fields;
 * each group is a level over another field. An event visits only the groups of its own values, so the cost
 * grows with the number of matches, not of rules.
 */
export class IndexNode<R> {
  /** rules whose tests were all covered by the levels above */
  readonly #matched: R[] = [];
  readonly #scanned: IndexEntry<R>[] = [];
  readonly #fields: { get: Test["get"]; nodes: ValueTable<IndexNode<R>> }[] = [];

  constructor(rules: readonly IndexEntry<R>[], budget = { remaining: ENTRIES_MAX }) {
    const entries = rules.filter(({ tests }) => tests.length > 0);
    for (const { rule, tests } of rules) if (tests.length === 0) this.#matched.push(rule);
    if (entries.length <= LEAF_RULES || budget.remaining < entries.length) this.#scanned.push(...entries);
    else this.#divide(entries, budget);
  }

  #divide(rules: readonly IndexEntry<R>[], budget: { remaining: number }): void {
    const counts = countValues(rules);
    const groups = new Map<string, { get: Test["get"]; byValue: Map<MatchValue, IndexEntry<R>[]> }>();
    for (const { rule, tests } of rules) {
      const chosen = mostSelective(tests, counts);
      const group = groups.get(chosen.path) ?? { get: chosen.get, byValue: new Map() };
      groups.set(chosen.path, group);
      const entry = { rule, tests: tests.filter((test) => test !== chosen) };
      for (const value of chosen.values) {
        const entries = group.byValue.get(value);
        if (entries) entries.push(entry);
        else group.byValue.set(value, [entry]);
        budget.remaining--;
      }
    }
    for (const { get, byValue } of groups.values()) {
      const nodes = new Map<MatchValue, IndexNode<R>>();
      for (const [value, entries] of byValue) nodes.set(value, new IndexNode(entries, budget));
      this.#fields.push({ get, nodes: new ValueTable(nodes) });
    }
  }

  /** Adds the matching rules to `into`, each once, unordered. */
  collect(event: Matchable, into: R[]): void {
    for (let at = 0; at < this.#matched.length; at++) into.push(this.#matched[at]);
    for (let at = 0; at < this.#scanned.length; at++) {
      if (passes(this.#scanned[at].tests, event)) into.push(this.#scanned[at].rule);
    }
    for (let at = 0; at < this.#fields.length; at++) {
      const { get, nodes } = this.#fields[at];
      nodes.get(get(event))?.collect(event, into);
    }
  }
}

/** Runs all tests of a rule. */
function passes(tests: readonly Test[], event: Matchable): boolean {
  for (let at = 0; at < tests.length; at++) {
    if (!tests[at].values.has(tests[at].get(event) as MatchValue)) return false;
  }
  return true;
}

/** Counts the rules that test each field for each value. */
function countValues<R>(rules: readonly IndexEntry<R>[]): Map<string, Map<MatchValue, number>> {
  const byPath = new Map<string, Map<MatchValue, number>>();
  for (const { tests } of rules) {
    for (const { path, values } of tests) {
      const counts = byPath.get(path) ?? new Map<MatchValue, number>();
      byPath.set(path, counts);
      for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
  }
  return byPath;
}

/**
 * Finds the test whose most common value occurs in the fewest rules; on a tie,
 * the one with the fewest values.
 */
function mostSelective(tests: readonly Test[], byPath: Map<string, Map<MatchValue, number>>): Test {
  let [best, bestCost] = [tests[0], Infinity];
  for (const test of tests) {
    const counts = byPath.get(test.path)!;
    let cost = 0;
    for (const value of test.values) cost = Math.max(cost, counts.get(value)!);
    if (cost < bestCost || (cost === bestCost && test.values.size < best.values.size)) {
      [best, bestCost] = [test, cost];
    }
  }
  return best;
}
