/** The index: from the values of an event to the rules that they make match. */
import { getterOf } from "../../policy/engine/flat.ts";
import type { Event } from "../../event/mod.ts";
import type { MatchValue } from "../ir.ts";
import { ValueTable } from "./value_table.ts";

/** What the matcher looks at: any part of an event, with at least its type. */
export interface Matchable {
  common: { event_type: string; event_id?: string; timestamp_unix_ms?: number };
}

/** One test of a rule, ready to run. */
export interface Test {
  path: string;
  get(event: Matchable): unknown;
  values: ReadonlySet<MatchValue>;
}

/** @returns a test that reads its field without parsing the path again */
export function testOf(path: string, values: readonly MatchValue[]): Test {
  const get = getterOf(path);
  return { path, get: (event) => get(event as unknown as Event), values: new Set(values) };
}

/** A rule on its way down the index, with the tests that are not yet known to hold. */
export interface Pending<R> {
  rule: R;
  tests: readonly Test[];
}

/** So few rules are tried one by one. */
const LEAF_RULES = 6;
/** Most places of one index; what does not fit is tried one by one. A rule with many values has a place at each. */
const PLACES_MAX = 2_000_000;

/**
 * One level of the index. Its rules are tried, or looked up by the value of one field of theirs; what is found there
 * is a level in itself, by another field. An event passes a level once for each value that it has, so the cost grows
 * with what is found and not with the number of rules.
 */
export class IndexNode<R> {
  /** rules of which every test holds for whatever comes here */
  readonly #held: R[] = [];
  readonly #tried: Pending<R>[] = [];
  readonly #fields: { get: Test["get"]; nodes: ValueTable<IndexNode<R>> }[] = [];

  constructor(rules: readonly Pending<R>[], places = { left: PLACES_MAX }) {
    const open = rules.filter(({ tests }) => tests.length > 0);
    for (const { rule, tests } of rules) if (tests.length === 0) this.#held.push(rule);
    if (open.length <= LEAF_RULES || places.left < open.length) this.#tried.push(...open);
    else this.#divide(open, places);
  }

  #divide(rules: readonly Pending<R>[], places: { left: number }): void {
    const shared = sharedKeys(rules);
    const groups = new Map<string, { get: Test["get"]; byValue: Map<MatchValue, Pending<R>[]> }>();
    for (const { rule, tests } of rules) {
      const chosen = mostSelective(tests, shared);
      const group = groups.get(chosen.path) ?? { get: chosen.get, byValue: new Map() };
      groups.set(chosen.path, group);
      const rest = { rule, tests: tests.filter((test) => test !== chosen) };
      for (const value of chosen.values) {
        const there = group.byValue.get(value);
        if (there) there.push(rest);
        else group.byValue.set(value, [rest]);
        places.left--;
      }
    }
    for (const { get, byValue } of groups.values()) {
      const nodes = new Map<MatchValue, IndexNode<R>>();
      for (const [value, pending] of byValue) nodes.set(value, new IndexNode(pending, places));
      this.#fields.push({ get, nodes: new ValueTable(nodes) });
    }
  }

  /** Adds the rules that match, each once, in no order. */
  collect(event: Matchable, into: R[]): void {
    for (let at = 0; at < this.#held.length; at++) into.push(this.#held[at]);
    for (let at = 0; at < this.#tried.length; at++) {
      if (holds(this.#tried[at].tests, event)) into.push(this.#tried[at].rule);
    }
    for (let at = 0; at < this.#fields.length; at++) {
      const { get, nodes } = this.#fields[at];
      nodes.get(get(event))?.collect(event, into);
    }
  }
}

/** Whether every test holds. */
export function holds(tests: readonly Test[], event: Matchable): boolean {
  for (let at = 0; at < tests.length; at++) {
    if (!tests[at].values.has(tests[at].get(event) as MatchValue)) return false;
  }
  return true;
}

/** How many of the rules have a test with this field and value. */
function sharedKeys<R>(rules: readonly Pending<R>[]): Map<string, Map<MatchValue, number>> {
  const shared = new Map<string, Map<MatchValue, number>>();
  for (const { tests } of rules) {
    for (const { path, values } of tests) {
      const counts = shared.get(path) ?? new Map<MatchValue, number>();
      shared.set(path, counts);
      for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
  }
  return shared;
}

/** The test whose most common value is shared by the fewest rules; of equal ones the one with the fewest values. */
function mostSelective(tests: readonly Test[], shared: Map<string, Map<MatchValue, number>>): Test {
  let [best, bestCost] = [tests[0], Infinity];
  for (const test of tests) {
    const counts = shared.get(test.path)!;
    let cost = 0;
    for (const value of test.values) cost = Math.max(cost, counts.get(value)!);
    if (cost < bestCost || (cost === bestCost && test.values.size < best.values.size)) {
      [best, bestCost] = [test, cost];
    }
  }
  return best;
}
