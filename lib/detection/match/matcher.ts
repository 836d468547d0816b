/**
 * Matches events with compiled detections, and counts and describes the matches
 * (docs/design/contracts/06-detection.md §6).
 */
import { SbxError } from "../../base/error/mod.ts";
import { catalogue, type Finding } from "../../event/mod.ts";
import { type Compiled, type CompiledRule, isPlan, rulesOf } from "../compiled.ts";
import type { IrRule } from "../ir/ir.ts";
import { type MatchPhase, RuleEngine } from "../rule/run/engine.ts";
import { IndexNode, type Matchable, type Test, testOf } from "./index_node.ts";
import type { RuleCounter } from "./schema.ts";

export type { RuleCounter } from "./schema.ts";

/** Maximum number of cached event types; there are ten, and a hostile file may contain any. */
const TYPES_MAX = 64;

/**
 * Fields whose values decide whether an event matches any rule; `all` where keywords search every text of it,
 * and `history` where earlier events count too.
 */
export type FieldsRead = readonly string[] | "all" | "history";

/** Rule with its pack and its match counter. */
export interface LoadedRule {
  readonly rule: CompiledRule;
  readonly pack_id: string;
  readonly pack_version: string;
  /** position among all rules of the matcher */
  readonly order: number;
  match_count: number;
  last_matched_event: string | null;
  last_matched_unix_ms: number | null;
}

/**
 * Evaluates events against detections with one index per family, without zod
 * (docs/design/contracts/06-detection.md §6). Only its counters change; a changed set of packs needs a new
 * matcher.
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
  readonly #engine: RuleEngine;
  /** rules of each plan by id */
  readonly #planned: readonly ReadonlyMap<string, LoadedRule>[];
  #lastType = "";
  #lastIndex: IndexNode<LoadedRule> | null = null;
  #events = 0;
  #matches = 0;

  /**
   * @param before matcher to continue the counters of, for rules in both
   * @throws {SbxError} `detection.conflict`: two rules have the same id, so their findings could not be
   * distinguished
   */
  constructor(packs: readonly Compiled[], before?: Matcher) {
    const previousRules = new Map(before?.rules.map((loaded) => [loaded.rule.id, loaded]));
    const loaded = packs.flatMap((ir) => rulesOf(ir).map((rule) => ({ ir, rule }))).map((
      { ir, rule },
      order,
    ): LoadedRule & { ir: Compiled } => {
      const candidate = previousRules.get(rule.id);
      const previous = candidate?.pack_id === ir.pack_id ? candidate : undefined;
      return {
        ir,
        rule,
        pack_id: ir.pack_id,
        pack_version: ir.pack_version,
        order,
        match_count: previous?.match_count ?? 0,
        last_matched_event: previous?.last_matched_event ?? null,
        last_matched_unix_ms: previous?.last_matched_unix_ms ?? null,
      };
    });
    this.rules = loaded;
    requireUniqueIds(this.rules);
    const indexed = loaded.flatMap((each) =>
      "matchers" in each.rule
        ? [{ rule: each as LoadedRule, tests: testsOf(each.rule), of: each.rule.event_family }]
        : []
    );
    for (const [family, entries] of Map.groupBy(indexed, ({ of }) => of)) {
      this.#families.set(family, new IndexNode(entries));
    }
    const plans = packs.filter(isPlan);
    this.#engine = new RuleEngine(plans, before && before.#engine);
    this.#planned = plans.map((plan) =>
      new Map(loaded.filter(({ ir }) => ir === plan).map((each) => [each.rule.id, each]))
    );
  }

  /** Events evaluated and findings made since this matcher was created. */
  get counters(): { events: number; matches: number } {
    return { events: this.#events, matches: this.#matches };
  }

  /** Fields that {@linkcode mayHit} reads. */
  get reads(): FieldsRead {
    const fields = this.rules.flatMap(({ rule }) =>
      "matchers" in rule ? rule.matchers.map(({ field_path }) => field_path) : []
    );
    const others = this.#engine.reads;
    return typeof others === "string" ? others : [...new Set([...fields, ...others])];
  }

  /** Tests whether any rule matches an event, and counts nothing. */
  mayHit(event: Matchable): boolean {
    const hits: LoadedRule[] = [];
    this.#indexOf(event.common.event_type)?.collect(event, hits);
    return hits.length > 0 || this.#engine.mayHit(event);
  }

  /** Match counter of each rule, for the API. */
  ruleCounters(): RuleCounter[] {
    return this.rules.map(({ rule, pack_id, match_count, last_matched_event, last_matched_unix_ms }) => ({
      rule_id: rule.id,
      pack_id,
      match_count,
      last_matched_event,
      last_matched_unix_ms,
    }));
  }

  /** Evaluates one event. @returns its findings, in the order of packs and rules */
  match(event: Matchable, phase?: MatchPhase): DetectionFinding[] {
    const hits = this.hits(event, phase);
    return hits.length ? hits.map((loaded) => findingOf(event, loaded)) : [];
  }

  /**
   * Evaluates one event and updates the counters.
   *
   * @param phase the Sigma rules to evaluate: the ones that wait for a response, the others, or all
   * @returns the matching rules, in the order of packs and rules
   */
  hits(event: Matchable, phase?: MatchPhase): LoadedRule[] {
    this.#events++;
    const hits: LoadedRule[] = [];
    this.#indexOf(event.common.event_type)?.collect(event, hits);
    if (!this.#engine.isEmpty) {
      for (const { plan, id } of this.#engine.match(event, phase)) {
        const loaded = this.#planned[plan].get(id);
        if (loaded) hits.push(loaded);
      }
    }
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

  /** Index of an event type's family, the part before the first dot. Cached, because types are few. */
  #indexOf(type: string): IndexNode<LoadedRule> | null {
    // Consecutive events often have the same type, and comparing is faster than hashing.
    if (type === this.#lastType) return this.#lastIndex;
    this.#lastType = type;
    return this.#lastIndex = this.#lookUp(type);
  }

  #lookUp(type: string): IndexNode<LoadedRule> | null {
    const cached = this.#types.get(type);
    if (cached !== undefined) return cached;
    const dot = type.indexOf(".");
    const index = this.#families.get(dot < 0 ? type : type.slice(0, dot)) ?? null;
    if (this.#types.size < TYPES_MAX) this.#types.set(type, index);
    return index;
  }
}

/** Builds the tests of a rule; a test of an unknown field never passes. */
function testsOf({ matchers }: IrRule): Test[] {
  return matchers.map(({ field_path, values }) =>
    testOf(field_path, catalogue.has(field_path) ? values : [])
  );
}

function requireUniqueIds(rules: readonly LoadedRule[]): void {
  const seen = new Map<string, string>();
  for (const { rule, pack_id } of rules) {
    const other = seen.get(rule.id);
    if (other !== undefined) {
      throw new SbxError(
        "detection.conflict",
        `the packs "${other}" and "${pack_id}" both define the rule "${rule.id}"`,
        { hint: "rename the source in one of them, or load only one" },
      );
    }
    seen.set(rule.id, pack_id);
  }
}

export interface DetectionFinding extends Finding {
  sigma_id?: string;
  /** sinks that its pack names; absent: all */
  export_routes?: string[];
}

/** Builds the finding of a rule that matched an event. */
export function findingOf(
  event: Matchable,
  { rule, pack_id }: { rule: CompiledRule; pack_id: string },
): DetectionFinding {
  const event_id = event.common.event_id ?? "";
  return {
    finding_id: `finding-${event_id}-${rule.id}`,
    event_id,
    rule_id: rule.id,
    pack_id,
    ...(rule.sigma_id !== undefined && { sigma_id: rule.sigma_id }),
    title: rule.title,
    severity: rule.severity,
    confidence: rule.confidence,
    tags: [...rule.tags],
  };
}

/** Merges counters of several VMs into one per rule: sums the counts, keeps the latest match. */
export function mergeCounters(counters: readonly RuleCounter[]): RuleCounter[] {
  const merged = new Map<string, RuleCounter>();
  for (const counter of counters) {
    const key = `${counter.pack_id} ${counter.rule_id}`;
    const sum = merged.get(key);
    if (!sum) {
      merged.set(key, { ...counter });
      continue;
    }
    sum.match_count += counter.match_count;
    if ((counter.last_matched_unix_ms ?? -1) > (sum.last_matched_unix_ms ?? -1)) {
      sum.last_matched_event = counter.last_matched_event;
      sum.last_matched_unix_ms = counter.last_matched_unix_ms;
    }
  }
  return [...merged.values()];
}
