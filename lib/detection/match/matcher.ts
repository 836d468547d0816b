import { SbxError } from "../../base/error/mod.ts";
import { catalogue } from "../../event/mod.ts";
import { type DetectionFinding, findingOf } from "../finding.ts";
import type { DetectionIr, IrRule } from "../ir.ts";
import type { RuleCounter } from "./counter.ts";
import { IndexNode, type Matchable, type Test, testOf } from "./index_node.ts";

/** Most event types that are remembered; there are ten, and a hostile file may name any. */
const TYPES_MAX = 64;

/** A rule with the pack that it is from and what it has found so far. */
export interface LoadedRule {
  readonly rule: IrRule;
  readonly pack_id: string;
  readonly pack_version: string;
  /** place among all rules of the matcher */
  readonly order: number;
  match_count: number;
  last_matched_event: string | null;
  last_matched_unix_ms: number | null;
}

/**
 * Finds what detections say of an event: family by family, by index, without zod (contracts.md §6, "Evaluate").
 * Immutable but for its counters; a changed set of packs is another matcher.
 *
 * @example
 * ```ts
 * const matcher = new Matcher([ir]);
 * const findings = matcher.match(event);
 * ```
 */
export class Matcher {
  readonly rules: readonly LoadedRule[];
  readonly #families = new Map<string, IndexNode<LoadedRule>>();
  readonly #types = new Map<string, IndexNode<LoadedRule> | null>();
  #lastType = "";
  #lastIndex: IndexNode<LoadedRule> | null = null;
  #events = 0;
  #matches = 0;

  /**
   * @param before whose counters go on, for the rules that are in both
   * @throws SbxError `detection.conflict` when two rules have one id: their findings could not be told apart
   */
  constructor(irs: readonly DetectionIr[], before?: Matcher) {
    const counted = new Map(before?.rules.map((loaded) => [loaded.rule.id, loaded]));
    this.rules = irs.flatMap((ir) => ir.rules.map((rule) => ({ ir, rule }))).map(({ ir, rule }, order) => {
      const old = counted.get(rule.id);
      const same = old?.pack_id === ir.pack_id ? old : undefined;
      return {
        rule,
        pack_id: ir.pack_id,
        pack_version: ir.pack_version,
        order,
        match_count: same?.match_count ?? 0,
        last_matched_event: same?.last_matched_event ?? null,
        last_matched_unix_ms: same?.last_matched_unix_ms ?? null,
      };
    });
    refuseTwins(this.rules);
    const byFamily = Map.groupBy(this.rules, ({ rule }) => rule.event_family);
    for (const [family, rules] of byFamily) {
      this.#families.set(
        family,
        new IndexNode(rules.map((loaded) => ({ rule: loaded, tests: testsOf(loaded.rule) }))),
      );
    }
  }

  /** Events that were looked at, and findings that were made, since this matcher exists. */
  get counters(): { events: number; matches: number } {
    return { events: this.#events, matches: this.#matches };
  }

  /** What each rule has found, for the API. */
  ruleCounters(): RuleCounter[] {
    return this.rules.map(({ rule, pack_id, match_count, last_matched_event, last_matched_unix_ms }) => ({
      rule_id: rule.id,
      pack_id,
      match_count,
      last_matched_event,
      last_matched_unix_ms,
    }));
  }

  /** Findings of one event, in the order of packs and rules. */
  match(event: Matchable): DetectionFinding[] {
    const hits = this.hits(event);
    return hits.length ? hits.map((loaded) => findingOf(event, loaded)) : [];
  }

  /** The rules that match one event, in the order of packs and rules; they count it. */
  hits(event: Matchable): LoadedRule[] {
    this.#events++;
    const index = this.#indexOf(event.common.event_type);
    if (!index) return [];
    const hits: LoadedRule[] = [];
    index.collect(event, hits);
    if (!hits.length) return hits;
    if (hits.length > 1) hits.sort((a, b) => a.order - b.order);
    for (const loaded of hits) {
      loaded.match_count++;
      loaded.last_matched_event = event.common.event_id ?? null;
      loaded.last_matched_unix_ms = event.common.timestamp_unix_ms ?? null;
    }
    this.#matches += hits.length;
    return hits;
  }

  /** The index of a type's family: what stands before the first dot. Types are few, so their answer is remembered. */
  #indexOf(type: string): IndexNode<LoadedRule> | null {
    // An event is often of the type of the one before, and comparing is quicker than hashing.
    if (type === this.#lastType) return this.#lastIndex;
    this.#lastType = type;
    return this.#lastIndex = this.#lookUp(type);
  }

  #lookUp(type: string): IndexNode<LoadedRule> | null {
    const known = this.#types.get(type);
    if (known !== undefined) return known;
    const dot = type.indexOf(".");
    const index = this.#families.get(dot < 0 ? type : type.slice(0, dot)) ?? null;
    if (this.#types.size < TYPES_MAX) this.#types.set(type, index);
    return index;
  }
}

/** The tests of a rule; those of a field that no event has are none that can hold. */
export function testsOf({ matchers }: IrRule): Test[] {
  return matchers.map(({ field_path, values }) =>
    testOf(field_path, catalogue.has(field_path) ? values : [])
  );
}

function refuseTwins(rules: readonly LoadedRule[]): void {
  const seen = new Map<string, string>();
  for (const { rule, pack_id } of rules) {
    const other = seen.get(rule.id);
    if (other !== undefined) {
      throw new SbxError(
        "detection.conflict",
        `the packs "${other}" and "${pack_id}" both have a rule "${rule.id}"`,
        { hint: "rename the source of one of them, or do not load both" },
      );
    }
    seen.set(rule.id, pack_id);
  }
}
